"""Storage: load a working set, save it, find what is due. No rule about promises is here."""

from holdfast.store.urls import open_store

__all__ = ["open_store"]
