"""The HTTP server, for workers in any language."""

from holdfast.server.serve import running, serve
from holdfast.server.settings import SETTINGS, Setting, Settings, load_settings

__all__ = ["SETTINGS", "Setting", "Settings", "load_settings", "running", "serve"]
