"""The node: groups requests into commits, runs timers, delivers messages."""

from holdfast.node.node import Node

__all__ = ["Node"]
