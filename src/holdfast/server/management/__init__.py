"""The management API: `/v1/...`, JSON over HTTP, for curl, other languages and a console.

`routes.py` is the table of everything that is answered; each noun has a module of handlers. A handler holds
no rules: it builds requests of the protocol, sends them the way `POST /` does (with the caller's own token,
rate and budgets) and shows the replies. `openapi.py` describes the table.
`events.py` serves what a route may also give as server-sent events.
"""
