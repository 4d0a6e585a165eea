"""Records what a program would do on the card, and runs nothing: for predictions.

Within `recorded` the device's kernels record into a recorder of its own, whose tensors have addresses and no memory:
nothing writes them. So a program takes the same way as when it runs, through the same dispatcher and the same rows;
what would be launched is kept as recordings, what would be copied or left to the CPU is noted.

A value that the host asks for is there if it follows from whole numbers of the host (`known_values`): else it is a
`ValueNeeded`.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from habana_tf._native import _bridge
from habana_tf.card.model.lowered import Lowered, lowered
from habana_tf.cluster.cluster import Ref
from habana_tf.torch.dry_run.known_values import KnownValues, is_told
from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record import current, random_state, scopes
from habana_tf.torch.record.meta import to_meta
from habana_tf.torch.record.nested import mapped, tensors
from habana_tf.torch.record.overload import is_written
from habana_tf.torch.record.program import Recording, TorchCluster, cluster_of, signature
from habana_tf.torch.record.recorder import Recorder
from habana_tf.torch.transformer_engine.scaling import unreduced

_NO_END = 1 << 62
_kept: list[Memory] = []
"""Of earlier recordings, memory that a tensor may still have: its addresses must not be given to others."""


class ValueNeeded(RuntimeError):
    """A program that is only recorded asks for a value of the card; the message says where."""


@dataclass(frozen=True)
class Unrun:
    """A program that would be launched. roles: what each input is, as `Unrunner.call` was told; empty for a tensor
    that another program or the host has made. gradients: contents that are gradients of weights."""

    recording: Recording
    roles: tuple[str, ...]
    gradients: tuple[Ref, ...] = ()

    @cached_property
    def key(self) -> bytes:
        """Equal for programs that compute the same."""
        return hashlib.sha256(self.recording.computed()).digest()

    def lowered(self) -> Lowered:
        """It in primitives."""
        return lowered_cluster(cluster_of(self.recording))


def lowered_cluster(cluster: TorchCluster) -> Lowered:
    """A program of recorded ops in primitives."""
    assert cluster.recording is not None
    shapes = [shape for _, shape, _ in signature(cluster.recording)]
    return lowered(cluster, shapes, [None] * len(cluster.inputs))


@dataclass(frozen=True)
class OnHost:
    """What the host would do between launches. op: an op on the CPU, empty for a copy. to_host, to_card: bytes that
    would be copied."""

    op: str
    name: str
    to_host: int
    to_card: int


class _Memory(Memory):
    """Addresses. strangers: of tensors of the real memory that died meanwhile. most: bytes that tensors had at once.
    Storages that are emptied, as `fully_shard` does, have none until they get their size again."""

    def __init__(self) -> None:
        super().__init__(_NO_END)
        self.strangers: list[int] = []
        self.now = self.most = 0
        self._empty: set[int] = set()

    def _take(self, nbytes: int) -> Block:
        self._more(nbytes)
        return super()._take(nbytes)

    def _more(self, nbytes: int) -> None:
        self.now += nbytes
        self.most = max(self.most, self.now)

    def release(self, block: Block) -> None:
        if not block.held and block.address not in self._empty:
            self.now -= block.size
        if not block.held:
            self._empty.discard(block.address)
        super().release(block)

    def discard(self, block: Block) -> None:
        if block.address not in self._empty:
            self._empty.add(block.address)
            self.now -= block.size

    def refilled(self, block: Block) -> None:
        if block.address in self._empty:
            self._empty.remove(block.address)
            self._more(block.size)

    def collect(self) -> None:
        dead = _bridge.dead_tensors()
        self.strangers += [address for address in dead if address not in self.blocks]
        self.died([address for address in dead if address in self.blocks])

    def count(self, block: Block) -> None:
        pass


class Unrunner(Recorder):
    """See the module. programs_made: what would be launched, in order; host: what the host would do."""

    def __init__(self) -> None:
        super().__init__(_Memory(), True)
        self.unrun = self
        self.programs_made: list[Unrun] = []
        self.host: list[OnHost] = []
        self.known = KnownValues()
        self._called: dict[int, str] = {}
        self._gradients: list[Ref] = []

    def call(self, t: torch.Tensor, name: str) -> None:
        """Says what a tensor is."""
        self._called[t.untyped_storage().data_ptr()] = name

    def note_gradients(self, tensors: Sequence[torch.Tensor]) -> None:
        """Says which tensors are gradients of weights."""
        values = (self.memory.of(t).value for t in tensors)
        self._gradients += [value for value in values if value is not None]

    def forget(self) -> None:
        """Drops what was recorded so far."""
        self.flush()
        self.programs_made.clear()
        self.host.clear()

    def _run(self, found: list[tuple[tuple[int, int], Block]]) -> None:
        wanted = tuple((value, b.input if b.reader == self.memory.reading else -1) for value, b in found)
        roles = tuple(self._called.get(b.address, "") for b in self.inputs.blocks)
        made = Unrun(self.node.recording(wanted), roles, tuple(self._gradients))
        self.programs_made.append(made)
        self._gradients.clear()
        with torch.utils._python_dispatch._disable_current_modes():  # no op of the program: its modes do not see it
            self.known.would_run(made.recording, self.inputs, [b for _, b in found], self._numbers)

    def settle(self, t: torch.Tensor, write: bool) -> Block:
        """A value that the host reads. Raises ValueNeeded where it is not known."""
        where = scopes.now()
        block = self.settled(t)
        if write or block not in self.known:
            raise ValueNeeded(
                "the step needs a value of the card while it runs" + (f", in {where}" if where else "")
                + ": predict a step without .item(), .cpu(), printing, or a branch on what was computed; where it asks "
                "about whole numbers that it is given, as a mask, give them with their values"
            )  # fmt: skip
        self.host.append(OnHost("", f"{where or 'a value'}, {list(t.shape)}", t.nbytes, 0))
        return block

    def settled(self, t: torch.Tensor) -> Block:
        """Ends the program that has to do with a tensor. Returns its block, whose pages are zeros until touched."""
        self._written(t)
        return self.memory.of(t)

    def copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """A copy between host and card. Whole numbers that the host writes are there when it reads them again."""
        if source.device.type == "hpu":
            target.copy_(self.settle(source, False).viewed(source))
            return
        self._written(target)
        self.host.append(OnHost("", f"a tensor of the host, {list(source.shape)}", 0, target.nbytes))
        if is_told(source):
            self.tell(target, source)

    def tell(self, t: torch.Tensor, contents: torch.Tensor) -> None:
        """Says what a tensor of the card holds."""
        block = self.memory.of(t)
        block.viewed(t).copy_(contents)
        self.known.tell(block)

    def _written(self, t: torch.Tensor) -> None:
        """The host writes a tensor, which ends a program that has to do with it."""
        block = self.memory.of(t)
        if block.value is not None or block.reader == self.memory.reading:
            self.flush()

    def left_to_cpu(self, overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """An op that would run on the CPU: its results by its meta kernel."""
        given = [t for t in tensors([args, kwargs]) if t.device.type == "hpu"]
        if any(self.memory.of(t).value is not None for t in given):
            self.flush()
        try:
            made = overload(*to_meta(args), **to_meta(kwargs))
        except (NotImplementedError, RuntimeError) as why:
            raise ValueNeeded(
                f"{overload} would run on the CPU, and the size of its result is not known: {why}"
            ) from why
        written = [a.name for a in overload._schema.arguments if is_written(a)]
        names = [a.name for a in overload._schema.arguments]
        targets = [kwargs.get(name, args[names.index(name)] if names.index(name) < len(args) else None)
                   for name in written]  # fmt: skip
        results = [t for t in targets if isinstance(t, torch.Tensor)] or None
        fresh = mapped(_on_card, made) if results is None else results[0] if len(results) == 1 else tuple(results)
        name = f"{scope}/{overload}" if (scope := scopes.now()) else str(overload)
        self.host.append(OnHost(str(overload), name, _bytes(given), _bytes(tensors(fresh))))
        return fresh


def _on_card(made: Any) -> Any:
    """A tensor of the card for what a meta kernel gave."""
    if isinstance(made, torch.Tensor):
        return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device="hpu")
    return made


def _bytes(found: Iterable[torch.Tensor]) -> int:
    return sum(t.nbytes for t in found)


@contextmanager
def recorded(make: Callable[[], Unrunner] = lambda: Unrunner()) -> Iterator[Any]:
    """Within it, ops on tensors of the device are recorded and not run. Tensors that were made before cannot be used.
    No other thread may use the device meanwhile."""
    real, unrunner, random = current.recorder(), make(), random_state.default.get_state()
    measured, unreduced.waiting = unreduced.waiting, []
    with real.lock:
        real.flush()
        try:
            with current.recorded_by(unrunner):
                yield unrunner
        finally:
            random_state.default.set_state(random)
            unreduced.waiting = measured
            gc.collect()
            memory = unrunner.memory
            assert isinstance(memory, _Memory)
            memory.collect()
            real.memory.died(memory.strangers)
            if any(block.lent for block in memory.blocks.values()):
                _kept.append(memory)
