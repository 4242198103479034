"""The shop behind Flask."""

from typing import Any

from flask import Flask, request

from holdfast.ext.flask import accepted, app_of, blueprint, init_app, response_of
from tests.integrations.web_shop import PUBLIC, allow, app, secret, tags

application = Flask(__name__)
init_app(application, app)
application.register_blueprint(blueprint(app, PUBLIC, allow=allow, tags=tags, url_prefix="/api"))


@application.post("/own")
def own() -> Any:
    return response_of(accepted(app_of().start(secret, id=request.args["id"]), "/api"))
