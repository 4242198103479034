"""How an app declares entities, and how they are called from outside."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from holdfast.host.bridge import AppBridge
from holdfast.host.entities import Entities, EntityHandle
from holdfast.payloads.payloads import Payloads
from holdfast.workflow.entities import body_of, declare_entity
from holdfast.workflow.entity_class import entity_of
from holdfast.workflow.registry import Registry, WorkflowDefinition

E = TypeVar("E")


class DeclaringEntities:
    payloads: Payloads
    registry: Registry
    _bridge: AppBridge

    @overload
    def entity(self, cls: type[E], /) -> type[E]: ...
    @overload
    def entity(self, cls: type[E], key: str, /, *, call_id: str | None = None) -> E: ...
    @overload
    def entity(
        self, /, *, name: str | None = None, version: int = 1, group: str | None = None
    ) -> Callable[[type[E]], type[E]]: ...
    def entity(
        self,
        cls: type[Any] | None = None,
        key: str | None = None,
        /,
        *,
        name: str | None = None,
        version: int = 1,
        group: str | None = None,
        call_id: str | None = None,
    ) -> Any:
        """Declare an entity: `@app.entity` on a class. Or call one from outside, by its class and key.

        In a script the calls wait and return, in asyncio they are awaited. Under the same `call_id` a call is
        carried out once, however often you make it.

        >>> balance = app.entity(Account, "ada").deposit(500)
        """
        if cls is not None and key is not None:
            return EntityHandle(self._bridge, self.payloads, entity_of(cls), key, call_id)

        def register(cls: type[Any]) -> type[Any]:
            entity = declare_entity(cls, name, version, group)
            body = body_of(entity)
            self.registry.add(WorkflowDefinition(body, entity.name, 1, group, None, is_kept_warm=False))
            return cls

        return register if cls is None else register(cls)

    def entities(self, cls: type[E], /) -> Entities[E]:
        """All instances of an entity: their keys, their states; deleting one."""
        return Entities(self._bridge, self.payloads, cls)
