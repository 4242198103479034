"""Every fault of the campaign: does it, says what it met, takes it back.

A fault that met nothing in flight happened to nobody; one that this machine cannot have raises `Impossible`.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from tests.chaos.deployments import Impossible, PostgresDeployment, SqliteDeployment
from tests.chaos.workload import LEASE_S
from tests.chaos.world import World
from tests.processes import eventually


class Met(Struct, frozen=True):
    """What a fault hit."""

    in_flight: int
    takeover_s: float | None = None  # until others had what a worker held
    recovery_s: float | None = None  # until the node was ready again
    count: int = 1  # connections cut, system calls failed


Fault = Callable[[World], Met]


def kill_worker(world: World) -> Met:
    place, _ = world.busy_worker()
    victim = world.workers[place]
    since = time.monotonic()
    assert victim.kill(), "it had ended by itself"
    held = world.held_by(victim)
    world.workers[place] = world.new_worker()
    return Met(len(held), takeover_s=world.takeover(held, since) if held else None)


def stop_worker(world: World) -> Met:
    place, _ = world.busy_worker()
    victim = world.workers[place]
    since = time.monotonic()
    victim.freeze()
    held = world.held_by(victim)
    takeover_s = world.takeover(held, since) if held else None
    time.sleep(max(0.0, since + world.chance.uniform(2, 3) * LEASE_S - time.monotonic()))
    victim.thaw()
    return Met(len(held), takeover_s=takeover_s)


def kill_server(world: World) -> Met:
    node = world.chance.choice(world.nodes)
    in_flight = _when_busy(world)
    assert node.alive.kill(), "it had ended by itself"
    return Met(in_flight, recovery_s=node.start())


def stop_server(world: World) -> Met:
    node = world.chance.choice(world.nodes)
    in_flight = _when_busy(world)
    node.alive.freeze()
    time.sleep(world.chance.uniform(2, 3) * LEASE_S)
    node.alive.thaw()
    return Met(in_flight, recovery_s=node.wait_until_ready())


def kill_postgres(world: World) -> Met:
    deployment = _postgres(world)
    in_flight = _when_busy(world)
    assert deployment.server.kill() > 3, "it was killed while it did nothing"
    since = time.monotonic()
    deployment.server.start()
    for node in world.nodes:
        node.wait_until_ready()
    return Met(in_flight, recovery_s=time.monotonic() - since)


def stop_postgres(world: World) -> Met:
    deployment = _postgres(world)
    in_flight = _when_busy(world)
    pids = deployment.server.pids()
    for pid in pids:
        _signal(pid, signal.SIGSTOP)
    time.sleep(world.chance.uniform(1, 2) * LEASE_S)
    for pid in pids:
        _signal(pid, signal.SIGCONT)
    since = time.monotonic()
    for node in world.nodes:
        node.wait_until_ready()
    return Met(in_flight, recovery_s=time.monotonic() - since)


def fill_disk(world: World) -> Met:
    deployment = _sqlite(world)
    in_flight = _when_busy(world)
    ballast = deployment.disk / "ballast"
    refused = world.scribe.unknown
    with ballast.open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096):  # to the last page
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    # Until callers were told that it is full: a commit needs new pages sooner or later.
    eventually(lambda: world.scribe.unknown > refused + 2, 60)
    failed = world.scribe.unknown - refused
    ballast.unlink()
    return Met(in_flight, recovery_s=world.nodes[0].wait_until_ready(), count=failed)


def limit_file_size(world: World) -> Met:
    """The disk is full for one process: it may write no file past its first page. Needs no root.

    (A limit at the length of the log would often refuse nothing: the log has room ahead, and is used again.)
    """
    _sqlite(world)
    in_flight = _when_busy(world)
    pid = world.nodes[0].alive.pid
    refused = world.scribe.unknown
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    try:
        eventually(lambda: world.scribe.unknown > refused + 2, 20)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    return Met(in_flight, recovery_s=world.nodes[0].wait_until_ready(), count=world.scribe.unknown - refused)


def fail_io(world: World) -> Met:
    """System calls of the server fail for a while: syncs and writes, with EIO or ENOSPC."""
    _sqlite(world)
    strace = shutil.which("strace")
    if strace is None:
        raise Impossible("strace is not installed")
    in_flight = _when_busy(world)
    call, error = world.chance.choice(
        [("fdatasync", "EIO"), ("fdatasync", "ENOSPC"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC")]
    )
    when = f"{world.chance.randrange(1, 6)}+{world.chance.randrange(2, 5)}"
    trace = world.folder / "strace.log"
    trace.unlink(missing_ok=True)
    command = [strace, "-f", "-q", "-o", str(trace), "-e", f"trace={call}"]
    command += ["-e", f"inject={call}:error={error}:when={when}", "-p", str(world.nodes[0].alive.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)

    def injected() -> int:
        return len(re.findall(r"\(INJECTED\)", trace.read_text())) if trace.exists() else 0

    try:
        eventually(lambda: injected() >= 3 or tracer.poll() is not None, 20)
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            raise Impossible(f"strace cannot attach: {tracer.stderr.read().decode().strip()}")
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)
        if tracer.stderr is not None:
            tracer.stderr.close()
    return Met(in_flight, recovery_s=world.nodes[0].wait_until_ready(), count=injected())


def jump_clock(world: World) -> Met:
    """The wall clock of one node is off for a while, ahead or behind; then it is right again.

    And then a worker dies: a clock that was set back must not keep its leases alive.
    """
    node = world.chance.choice(world.nodes)
    in_flight = _when_busy(world)
    node.set_clock(world.chance.choice([3600.0, -3600.0, 5.0, -5.0]))
    time.sleep(world.chance.uniform(0.3, 1.0))
    if world.chance.random() < 0.3:
        node.alive.kill()
        node.start()
    node.set_clock(0.0)
    recovery_s = node.wait_until_ready()
    kill_worker(world)  # which raises when nobody takes over
    return Met(in_flight, recovery_s=recovery_s)


def cut(world: World) -> Met:
    in_flight = _when_busy(world)
    return Met(in_flight, count=sum(proxy.cut() for proxy in world.proxies))


def lose_replies(world: World) -> Met:
    in_flight = _when_busy(world)
    return Met(in_flight, count=sum(proxy.lose_replies() for proxy in world.proxies))


def half_open(world: World) -> Met:
    in_flight = _when_busy(world)
    return Met(in_flight, count=world.chance.choice(world.proxies).half_open())


def slow(world: World) -> Met:
    in_flight = _when_busy(world)
    proxy = world.chance.choice(world.proxies)
    count = proxy.slow(world.chance.uniform(0.05, 0.6))
    time.sleep(world.chance.uniform(0.5, 1.5))
    proxy.slow(0.0)
    return Met(in_flight, count=count)


def part(world: World) -> Met:
    """Nobody gets through to one node for a while."""
    in_flight = _when_busy(world)
    proxy = world.chance.choice(world.proxies)
    count = proxy.link_count
    proxy.refuse(True)
    time.sleep(world.chance.uniform(0.5, 2.0))
    proxy.refuse(False)
    return Met(in_flight, count=count)


def cut_database(world: World) -> Met:
    deployment = _postgres(world)
    in_flight = _when_busy(world)
    return Met(in_flight, count=deployment.proxy.cut())


def lose_database_replies(world: World) -> Met:
    """Commits take place, and the nodes do not hear of it."""
    deployment = _postgres(world)
    in_flight = _when_busy(world)
    return Met(in_flight, count=deployment.proxy.lose_replies())


def slow_database(world: World) -> Met:
    deployment = _postgres(world)
    in_flight = _when_busy(world)
    count = deployment.proxy.slow(world.chance.uniform(0.02, 0.2))
    time.sleep(world.chance.uniform(0.5, 1.5))
    deployment.proxy.slow(0.0)
    return Met(in_flight, count=count)


EVERYWHERE: dict[str, Fault] = {
    "kill-worker": kill_worker,
    "stop-worker": stop_worker,
    "kill-server": kill_server,
    "stop-server": stop_server,
    "clock": jump_clock,
    "cut": cut,
    "lost-replies": lose_replies,
    "half-open": half_open,
    "slow": slow,
    "partition": part,
}
ON_SQLITE: dict[str, Fault] = {
    **EVERYWHERE,
    "disk-full": fill_disk,
    "file-limit": limit_file_size,
    "io-error": fail_io,
}
ON_POSTGRES: dict[str, Fault] = {
    **EVERYWHERE,
    "kill-postgres": kill_postgres,
    "stop-postgres": stop_postgres,
    "cut-database": cut_database,
    "lost-database-replies": lose_database_replies,
    "slow-database": slow_database,
}


def _when_busy(world: World) -> int:
    """Wait for the next moment at which something is in flight; how much."""
    in_flight: int = eventually(world.in_flight, 30)
    return in_flight


def _sqlite(world: World) -> SqliteDeployment:
    assert isinstance(world.deployment, SqliteDeployment)
    return world.deployment


def _postgres(world: World) -> PostgresDeployment:
    assert isinstance(world.deployment, PostgresDeployment)
    return world.deployment


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
