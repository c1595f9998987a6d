"""What one rank does for MSCCL++, merged into few operations and cut into thread blocks that its executor can hold.

The executor refuses a thread block of more than 64 operations and has room for 16 channels and 16 remote buffers in each, and for 8
channels in an operation (execution_common.hpp). So what arrives one after the other is waited for and added together, and so is what
is sent; and a list that is still too long goes on in the next thread block, which waits for a semaphore of the one before. Only one
thread block of a rank works at a time: they share channels, and the order is that of the list.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headway.errors import BadInput

MOST_OPERATIONS = 64
# Of one thread block; as many remote buffers.
MOST_CHANNELS = 16
# Channels of one operation, and what one reduction adds to what is there.
AT_ONCE = 8
MOST_ADDED = 9
# Before and after the operations of a thread block in the middle: acquire, synchronise; synchronise, release.
HANDING_OVER = 4
# All must be on the GPU at once, for they wait for each other: an A100 has 108 multiprocessors.
MOST_BLOCKS = 100
NOP = {"name": "nop"}


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Units of the buffer go out on a channel, to a place in a remote buffer."""

    channel: int
    first: int
    count: int
    buffer: int
    index: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Units have come in on a channel; they lie in scratch and are to be added, or (None) where they belong."""

    channel: int
    first: int
    count: int
    scratch: int | None


Event = Dispatch | Receipt
One = TypeVar("One", Dispatch, Receipt)


def thread_blocks(rank: int, channels: int, events: Iterable[Event]) -> tuple[list[dict[str, Any]], int]:
    """The thread blocks of one rank, and how many semaphores they need."""
    blocks = [_Block()]
    for operation in _operations(channels, events):
        if not blocks[-1].fits(operation):
            blocks.append(_Block())
        blocks[-1].add(operation)
    if len(blocks) > MOST_BLOCKS:
        raise BadInput(
            f"rank {rank} would need {len(blocks)} thread blocks of {MOST_OPERATIONS} operations, and a GPU runs about "
            f"{MOST_BLOCKS} at once: export fewer chunks (--chunks) or a smaller network"
        )
    return [block.as_json(number, len(blocks)) for number, block in enumerate(blocks)], len(blocks) - 1


def _operations(channels: int, events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Greet all peers, then do as the events say, then see that all puts are done. Channels and buffers are the rank's."""
    every = list(_batched(range(channels), AT_ONCE))
    for name in ("signal", "wait"):
        yield from (_on(name, batch) for batch in every)
    yield NOP
    for sends, run in itertools.groupby(events, key=lambda event: isinstance(event, Dispatch)):
        if sends:
            yield from _puts([event for event in run if isinstance(event, Dispatch)])
        else:
            yield from _receipts([event for event in run if isinstance(event, Receipt)])
    yield from (_on("flush", batch) for batch in every)


def _batched(numbers: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    return (numbers[begin : begin + most] for begin in range(0, len(numbers), most))


def _on(name: str, channels: Sequence[int], **more: Any) -> dict[str, Any]:
    return {"name": name, **more, "channel_ids": list(channels), "channel_type": "port"}


def _rounds(events: Iterable[One]) -> Iterator[list[One]]:
    """As many at a time as an operation holds, in order, and no channel twice: one thread serves each."""
    batch: list[One] = []
    for event in events:
        if len(batch) == AT_ONCE or any(event.channel == other.channel for other in batch):
            yield batch
            batch = []
        batch.append(event)
    if batch:
        yield batch


def _puts(events: Sequence[Dispatch]) -> Iterator[dict[str, Any]]:
    for number, batch in enumerate(_rounds(events)):
        if number:
            yield NOP
        source = [_local("i", event.first, event.count) for event in batch]
        target = [{"buffer_id": event.buffer, "index": event.index, "size": event.count} for event in batch]
        yield _on("pws", [event.channel for event in batch], src_buff=source, dst_buff=target)


def _receipts(events: Sequence[Receipt]) -> Iterator[dict[str, Any]]:
    """Wait for all, then add what has come, to each range of units at once. Ranges that come together are equal or apart."""
    for batch in _rounds(events):
        yield _on("wait", [event.channel for event in batch])
        yield NOP
    adds: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event.scratch is not None:
            adds.setdefault((event.first, event.count), []).append(event.scratch)
    for (first, count), places in adds.items():
        own = _local("i", first, count)
        for some in _batched(places, MOST_ADDED):
            came = [_local("s", place, count) for place in some]
            yield {"name": "re", "src_buff": [own, *came], "dst_buff": [own], "reduce_op": "sum"}
    if adds:
        yield NOP


def _local(kind: str, index: int, size: int) -> dict[str, Any]:
    return {"type": kind, "index": index, "size": size}


@dataclass(slots=True)
class _Block:
    """A thread block as it grows; inside, channels and buffers have numbers of its own."""

    ops: list[dict[str, Any]] = field(default_factory=list)
    channels: dict[int, int] = field(default_factory=dict)
    buffers: dict[int, int] = field(default_factory=dict)

    def fits(self, operation: dict[str, Any]) -> bool:
        return (
            len(self.ops) + HANDING_OVER < MOST_OPERATIONS
            and len(self.channels.keys() | set(operation.get("channel_ids", ()))) <= MOST_CHANNELS
            and len(self.buffers.keys() | set(_remote(operation))) <= MOST_CHANNELS
        )

    def add(self, operation: dict[str, Any]) -> None:
        own = dict(operation)
        if "channel_ids" in own:
            own["channel_ids"] = [self.channels.setdefault(one, len(self.channels)) for one in own["channel_ids"]]
        for number in _remote(operation):
            self.buffers.setdefault(number, len(self.buffers))
        if own["name"] == "pws":
            own["dst_buff"] = [one | {"buffer_id": self.buffers[one["buffer_id"]]} for one in own["dst_buff"]]
        self.ops.append(own)

    def as_json(self, number: int, count: int) -> dict[str, Any]:
        before = [{"name": "sem_acquire", "semaphore_ids": [number - 1]}, NOP] if number else []
        after = [NOP, {"name": "sem_release", "semaphore_ids": [number]}] if number + 1 < count else []
        return {
            "id": number,
            "ops": [*before, *self.ops, *after],
            "channels": [{"channel_type": "port", "channel_ids": list(self.channels)}],
            "remote_buffer_refs": [{"access_channel_type": "port", "remote_buffer_ids": list(self.buffers)}],
        }


def _remote(operation: dict[str, Any]) -> list[int]:
    return [target["buffer_id"] for target in operation.get("dst_buff", ()) if "buffer_id" in target]
