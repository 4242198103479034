"""The table of routes as an OpenAPI document: `GET /v1/openapi.json`."""

from typing import Any, Final

from holdfast.server.management.routes import ROUTES, Parameter, Route

_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "what happened"},
        "hint": {"type": "string", "description": "what to do about it"},
        "code": {"type": "string", "description": "stable: docs/errors.md lists all of them"},
    },
}


def describe() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast management API",
            "version": "1",
            "description": "Look at executions and mend them. Instants are milliseconds since 1970.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}_{route.handler.__name__}",
        "summary": route.about,
        "parameters": [
            *(_parameter(name[1:-1], "path") for name in route.parts if name.startswith("{")),
            *(_query(parameter) for parameter in route.query),
        ],
        "responses": {
            "200": {"description": "done", "content": _content(route)},
            "default": {
                "description": "refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if route.body:
        schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {each.name: _schema(each) for each in route.body},
            "required": [each.name for each in route.body if each.required],
        }
        operation["requestBody"] = {
            "required": bool(schema["required"]),
            "content": {"application/json": {"schema": schema}},
        }
    if route.content is not None:
        operation["requestBody"] = {
            "description": route.content,
            "content": {"application/json": {"schema": {}}},
        }
    if route.follow is not None:
        operation["parameters"].append(
            _parameter("Last-Event-ID", "header")
            | {"description": "as events: continue after the one with this id"}
        )
        operation["responses"]["204"] = {"description": "as events: it is over, and there is nothing left"}
    return operation


def _content(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if route.follow is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return content


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


def _query(parameter: Parameter) -> dict[str, Any]:
    found = _parameter(parameter.name, "query") | {"description": parameter.about}
    return found | {"required": parameter.required, "schema": {"type": parameter.kind}}


def _schema(parameter: Parameter) -> dict[str, Any]:
    about = {"description": parameter.about}
    return about if parameter.kind == "any" else {"type": parameter.kind, **about}
