"""What of the limits of a queue is used, in all and by key, for whoever looks at it. It decides nothing."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.engine.claims import used
from holdfast.engine.scans import HeldRow, WaitingRow
from holdfast.protocol.jobs import QueueRecord
from holdfast.protocol.records import Millis

waiting_max: Final = 10_000  # tasks that are looked at, of each kind
keys_max: Final = 100  # that are shown


class KeyUse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of one key. `counted`: what the limits of the key count; `begun`: what its rate counts."""

    key: str | None = None
    pending: int = 0
    counted: int = 0
    begun: int = 0
    oldest_at: Millis | None = None


class QueueUse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`counted`: what `concurrency` counts, executions that wait included; `claimed`: what `running` counts;
    `begun`: what the rate counts. `keys`: the fullest first; `more_keys`: there are others."""

    counted: int = 0
    claimed: int = 0
    begun: int = 0
    oldest_at: Millis | None = None
    keys: list[KeyUse] = []
    more_keys: bool = False


def queue_use(
    queue: QueueRecord, held: Sequence[HeldRow], waiting: Sequence[WaitingRow], now: Millis
) -> QueueUse:
    """Without a key anywhere there are no `keys`."""
    counted = {key: number for _, key, number, _ in held}
    pending = {key: (number, oldest) for key, number, oldest in waiting}
    begun = {key: used(meter, now) for key, meter in queue.meters.items()}
    in_all = begun.pop("", 0)
    names = {key for key, number in begun.items() if number} | counted.keys() | pending.keys()
    keys = [
        KeyUse(key, number, counted.get(key, 0), begun.get(key or "", 0), oldest)
        for key in names
        for number, oldest in [pending.get(key, (0, None))]
    ]
    keys.sort(key=lambda each: (-each.pending, -each.counted, each.key is None, each.key or ""))
    return QueueUse(
        sum(counted.values()),
        sum(claimed for *_, claimed in held),
        in_all,
        min((oldest for _, _, oldest in waiting), default=None),
        keys[:keys_max] if names - {None} else [],
        len(keys) > keys_max,
    )
