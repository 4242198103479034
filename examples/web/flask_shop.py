"""Flask: only who started an execution sees it.

gunicorn --threads 8 examples.web.flask_shop:application
curl -H 'x-user: ada' --json '{"to": "bob"}' localhost:8000/api/invite
"""

from typing import Any

from flask import Flask

import holdfast as hf
from holdfast.ext.flask import blueprint, init_app
from holdfast.ext.web import Action

app = hf.App()


def send_mail(to: str) -> str:
    return f"mail to {to}"


@app.workflow
async def invite(to: str) -> str:
    """Send an invitation, and wait a week for the answer."""
    await hf.run(send_mail, to)
    try:
        return await hf.promise(str, name="answer", timeout="7d")
    except hf.TimedOut:
        return "no answer"


def owner(request: Any) -> dict[str, str]:
    """Your own way to tell who asks: a session, a token."""
    return {"owner": request.headers["x-user"]}


def allow(request: Any, action: Action) -> bool:
    return action.tags.get("owner") == request.headers["x-user"]


application = Flask(__name__)
init_app(application, app)
application.register_blueprint(blueprint(app, [invite], allow=allow, tags=owner, url_prefix="/api"))
