"""The heart: groups requests into commits, drives timers, hands out messages."""

from holdfast.node.node import Node

__all__ = ["Node"]
