"""Simulated machines: where a process starts, dies and is started again, with a name and a clock."""

import asyncio

from holdfast.host.session import Session
from holdfast.node import Node
from holdfast.testing.loop import Process
from holdfast.testing.network import SimulatedServer


class HostPlace:
    def __init__(self, name: str, *, has_node: bool = False, has_worker: bool = False) -> None:
        self.name = name
        self.has_node = has_node
        self.has_worker = has_worker
        self.skew_ms = 0  # how far its wall clock is ahead
        self.lives = 0
        self.is_leaving = False
        self.is_ready = asyncio.Event()  # everything that lives here has been started
        self.process = Process(name)
        self.node: Node | None = None
        self.server: SimulatedServer | None = None
        self.session: Session | None = None

    def begin_life(self) -> Process:
        self.lives += 1
        self.process = Process(f"{self.name}#{self.lives}")
        self.node = self.server = self.session = None
        self.is_leaving = False
        self.is_ready = asyncio.Event()
        return self.process

    @property
    def is_up(self) -> bool:
        return not self.process.is_dead
