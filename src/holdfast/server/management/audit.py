"""`/v1/audit`: who changed what through this API, newest first."""

from typing import Final

import msgspec

from holdfast.server.audit import AUDIT
from holdfast.server.management.call import Call, Json

page_max: Final = 200
looked_max: Final = 1_000  # entries that one page looks at


async def find(call: Call) -> Json:
    """By a prefix token: what was asked for about what it covers."""
    most = call.page_limit("limit", page_max)
    who, about = call.text("who"), call.text("target")
    found = await call.node.observed.documents.page(AUDIT, call.text("cursor") or "", looked_max, newest=True)
    entries: list[Json] = []
    cursor = None
    for document in found:
        entry = msgspec.json.decode(document.text)
        target = entry.get("target", "")
        if who in (None, entry["who"]) and about in (None, target) and call.grant.covers(target):
            entries.append({"id": document.id, "outcome": "asked"} | entry)
        if len(entries) == most:
            cursor = document.id
            break
    if cursor is None and len(found) == looked_max:
        cursor = found[-1].id
    return {"entries": entries, "cursor": cursor}
