"""Admin pages: the newest executions of the app, each with a link into the console. They change nothing."""

from typing import Any, Final, get_args

from holdfast.ext.django.models import Execution
from holdfast.ext.django.project import console_url, get_app
from holdfast.ext.optional import load
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.executions import ExecutionStatus

_admin: Any = load("django.contrib.admin")
_exceptions: Any = load("django.core.exceptions")
_http: Any = load("django.http")
_response: Any = load("django.template.response")

page_size: Final = 50


class ExecutionAdmin(_admin.ModelAdmin):  # type: ignore[misc]
    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """`?status=failed&workflow=checkout`, newest first, a page at a time."""
        self._check(request)
        wanted = {key: request.GET.get(key) or None for key in ("status", "workflow", "cursor")}
        context = {
            **self.admin_site.each_context(request),
            "title": "Executions",
            "opts": self.model._meta,
            "wanted": wanted,
            "statuses": get_args(ExecutionStatus),
            "console": console_url(),
        }
        context |= self._page(wanted)
        return _response.TemplateResponse(
            request, "admin/holdfast/execution/executions.html", context | (extra_context or {})
        )

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        """Its page in the console."""
        self._check(request)
        where = console_url(load("django.contrib.admin.utils").unquote(object_id))
        if where is None:
            raise _http.Http404("HOLDFAST_CONSOLE_URL is not set.")
        return _http.HttpResponseRedirect(where)

    def _check(self, request: Any) -> None:
        if not self.has_view_permission(request):
            raise _exceptions.PermissionDenied

    def _page(self, wanted: dict[str, Any]) -> dict[str, Any]:
        try:
            found = get_app().find(wanted["workflow"], status=wanted["status"], page_size=page_size)
            rows, cursor = found.page(wanted["cursor"])
        except HoldfastError as error:  # the page says why there is nothing
            return {"rows": [], "cursor": None, "trouble": str(error)}
        return {"rows": [(row, console_url(row.id)) for row in rows], "cursor": cursor, "trouble": None}


_admin.site.register(Execution, ExecutionAdmin)
