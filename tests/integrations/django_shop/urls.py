"""The shop behind Django."""

from typing import Any

from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path

from holdfast.ext.django import urls
from holdfast.ext.web import accepted
from tests.integrations.web_shop import PUBLIC, allow, app, secret, tags


def own(request: Any) -> HttpResponse:
    answer = accepted(app.start(secret, id=request.GET["id"]), "/api")
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


urlpatterns = [
    path("api/", include(urls(app, PUBLIC, allow=allow, tags=tags))),
    path("own", own),
    path("admin/", admin.site.urls),
]
