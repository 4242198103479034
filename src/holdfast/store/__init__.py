"""The memory: load a working set, save it, find what is due. No rule about promises lives here."""

from holdfast.store.urls import open_store

__all__ = ["open_store"]
