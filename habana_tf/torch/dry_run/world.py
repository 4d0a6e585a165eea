"""One rank of a job that does not exist: its program runs as if all other ranks were there, and nothing is computed.

Within `pretended` the program's `torch.distributed` gets groups that answer at once and note what they were asked: the
kind of a collective, its bytes, its group, the line of the program. So whatever a program uses
(DistributedDataParallel, `fully_shard`, DTensor, `torch.distributed.pipelining`) is met as it is. Tensors of the card
have no memory (`dry_run.recorder`); a value that the host reads is 0, and counted. Numbers of the host that ranks send
or broadcast, as objects are, reach those who are run, too (`Board`); what is gathered of them is this rank's own.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeProcessGroup
from torch.optim.optimizer import register_optimizer_step_post_hook

from habana_tf.card.prediction.ranks import Collective
from habana_tf.torch.dry_run.recorder import Unrun, Unrunner, recorded
from habana_tf.torch.memory.storage import Block
from habana_tf.torch.record import current, scopes
from habana_tf.torch.record.nested import tensors

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_KEPT = 1 << 20
"""Bytes of a tensor of whole numbers up to which its contents are kept."""
_METHODS = ("env", "tcp", "file")
_DTENSOR = "torch.distributed.tensor"
_c10d: Any = dist.distributed_c10d
_OBJECTS = ("send_object_list", "recv_object_list", "broadcast_object_list")
_meeting: Any = importlib.import_module("torch.distributed.rendezvous")  # the package has a function of this name
_KINDS = {
    "allreduce": ("all_reduce", 0, 0), "allreduce_coalesced": ("all_reduce", 0, 0), "broadcast": ("broadcast", 0, 0),
    "reduce": ("reduce", 0, 0), "allgather": ("all_gather", 0, 1), "_allgather_base": ("all_gather", 0, 1),
    "all_gather_single": ("all_gather", 0, 1), "allgather_into_tensor_coalesced": ("all_gather", 0, 1),
    "all_gather_single_coalesced": ("all_gather", 0, 1), "reduce_scatter": ("reduce_scatter", 1, 0),
    "_reduce_scatter_base": ("reduce_scatter", 1, 0), "reduce_scatter_single": ("reduce_scatter", 1, 0),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1, 0),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1, 0),
    "gather": ("gather", 0, 1), "scatter": ("scatter", 1, 0), "alltoall": ("all_to_all", 1, 0),
    "alltoall_base": ("all_to_all", 1, 0), "all_to_all_single": ("all_to_all", 1, 0),
}  # fmt: skip
"""Collectives of a process group: what each is, the argument whose bytes count, the one that others see."""


@dataclass(frozen=True)
class StepEnd:
    """The program's optimizer has made its step."""


@dataclass(frozen=True)
class UnrunLaunch:
    """A launch. reads, writes: addresses of the storages that it reads and of those that it writes."""

    program: Unrun
    reads: frozenset[int]
    writes: frozenset[int]


@dataclass
class Rank:
    """What one rank did. events: launches, collectives and the ends of steps, in order. reads: values that the host
    asked for, by line. alive: most bytes of tensors at once."""

    number: int
    size: int
    events: list[UnrunLaunch | Collective | StepEnd] = field(default_factory=list)
    reads: dict[str, int] = field(default_factory=dict)
    alive: int = 0
    board: Board = field(default_factory=lambda: Board())


class Board:
    """What ranks told each other of the host's numbers (names, sizes, objects as bytes), in messages and broadcasts:
    by who sends to whom, in order. Ranks are run one after the other, and one that needs what another has not said yet
    is run again from its beginning (`Unsaid`)."""

    def __init__(self) -> None:
        self.said: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        self._calls: Counter[tuple[Any, ...]] = Counter()

    def begin(self) -> None:
        """A rank begins."""
        self._calls.clear()

    @property
    def count(self) -> int:
        """How many messages there were."""
        return sum(map(len, self.said.values()))

    def say(self, key: tuple[Any, ...], contents: torch.Tensor) -> None:
        said, call = self.said.setdefault(key, []), self._calls[key]
        self._calls[key] += 1
        if call == len(said):
            said.append(contents.clone())

    def hear(self, key: tuple[Any, ...], of: int) -> torch.Tensor:
        """Raises Unsaid where that rank has not said it."""
        said, call = self.said.get(key, []), self._calls[key]
        self._calls[key] += 1
        if call >= len(said):
            raise Unsaid(of)
        return said[call]


class Unsaid(BaseException):
    """A rank needs what another one says. No Exception: programs catch those."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"what rank {rank} says is needed")
        self.rank = rank


class Ended(BaseException):
    """The program has made as many steps as were asked for. No Exception: programs catch those."""


class _Recorder(Unrunner):
    """Notes launches among collectives, and answers what the host reads with 0."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self.rank = rank

    def _run(self, found: list[tuple[tuple[int, int], Block]]) -> None:
        reads, writes = ({b.address for b in blocks} for blocks in (self.inputs.blocks, [b for _, b in found]))
        super()._run(found)
        self.rank.events.append(UnrunLaunch(self.programs_made.pop(), frozenset(reads), frozenset(writes)))

    def settle(self, t: torch.Tensor, write: bool) -> Block:
        line = scopes.line()
        self.rank.reads[line] = self.rank.reads.get(line, 0) + 1
        return self.settled(t)

    def copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """A copy between host and card. Whole numbers that the host writes are there when it reads them again."""
        if source.device.type == "hpu":
            block = self.settle(source, False)
            target.zero_() if source.is_floating_point() else target.copy_(block.viewed(source))
            return
        super().copied(source, target)
        if not source.is_floating_point() and source.nbytes <= _KEPT:
            self.memory.of(target).viewed(target).copy_(source)

    def settled(self, t: torch.Tensor) -> Block:
        """Ends the program that has to do with a tensor. Returns its block, whose pages are zeros until touched."""
        self._written(t)
        return self.memory.of(t)


class _Group(dist.ProcessGroup):
    """A process group of a world of one. rank: of the job; members: of the job, in order."""

    def __init__(self, rank: Rank, number: int, members: Sequence[int], name: str) -> None:
        super().__init__(number, len(members))
        self._job, self._members, self._called = rank, tuple(members), name
        backend = FakeProcessGroup._create_internal(number, len(members), FakeProcessGroup.Options())
        for device in (torch.device("hpu"), torch.device("cpu")):
            self._register_backend(device, dist.ProcessGroup.BackendType.CUSTOM, backend)
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)

    def getBackendName(self) -> str:
        """What PyTorch's C++ code calls it."""
        return "hccl"

    def name(self) -> str:
        return "hccl"

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        self._note("barrier", 0, [])
        return _Done([])

    def send(self, sent: Sequence[torch.Tensor], to: int, tag: int = 0) -> Any:
        return self._message("send", sent, (self.rank(), to), [])

    def recv(self, received: Sequence[torch.Tensor], of: int, tag: int = 0) -> Any:
        return self._message("recv", received, (of, self.rank()), received)

    def _message(self, kind: str, found: Sequence[torch.Tensor], pair: tuple[int, int], written: Any) -> Any:
        ranks = tuple(self._members[k] for k in pair)
        if any(_is_told(t) for t in found):
            self._tell(("message", *ranks, self._called), found, ranks[0], kind == "send")
            return _Done(list(found))
        self._note(kind, sum(t.nbytes for t in found), [] if kind == "recv" else found, written, ranks)
        return _Done(list(found))

    def _start_coalescing(self, device: Any) -> None:
        pass

    def _end_coalescing(self, device: Any) -> Any:
        return _Done([])

    def _tell(self, key: tuple[Any, ...], found: Sequence[torch.Tensor], of: int, says: bool) -> None:
        """Hands numbers of the host from one rank to others."""
        for t in found:
            mine = _recorder().settled(t).viewed(t) if t.device.type == "hpu" else t
            if says:
                self._job.board.say(key, mine)
            else:
                mine.copy_(self._job.board.hear(key, of))

    def _collective(self, name: str, args: tuple[Any, ...]) -> Any:
        kind, counted, read = _KINDS[name]
        found = [list(tensors(a)) for a in args[:2]]
        results = found[0]
        if kind == "broadcast" and all(_is_told(t) for t in results):
            root = self._members[args[1].rootRank if len(args) > 1 else 0]
            self._tell(("broadcast", self._called), results, root, root == self._job.number)
        elif any(t.device.type == "hpu" for t in results):
            self._note(kind, sum(t.nbytes for t in found[counted]), found[read], results)
        else:
            self._on_cpu(kind, found)
        return _Done(results)

    def _on_cpu(self, kind: str, found: list[list[torch.Tensor]]) -> None:
        """Of tensors of the CPU: what results hold if all ranks have the same."""
        results, given = found[0], found[1] if len(found) > 1 else []
        if kind == "all_reduce":
            return  # a sum of sizes and flags would be this rank's many times over: what all agree on stays
        if kind in ("all_gather", "gather", "all_to_all") and given:
            flat = torch.cat([t.reshape(-1) for t in given])
            for t in results:
                t.copy_(flat.repeat(-(-t.numel() // max(flat.numel(), 1)))[: t.numel()].reshape(t.shape))
        elif kind in ("reduce_scatter", "scatter") and given:
            for t, own in zip(results, given[self.rank() :] or given, strict=False):
                t.copy_(own.reshape(-1)[: t.numel()].reshape(t.shape))

    def _note(
        self, kind: str, nbytes: int, sent: Sequence[torch.Tensor], written: Sequence[torch.Tensor] = (),
        ranks: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        recorder = _recorder()
        reads, writes = (
            frozenset(recorder.settled(t).address for t in found if t.device.type == "hpu") for found in (sent, written)
        )
        self._job.events.append(
            Collective(kind, nbytes, ranks or self._members, self._called, reads, writes, scopes.line())
        )


def _recorder() -> _Recorder:
    recorder = current.recorder()
    assert isinstance(recorder, _Recorder)
    return recorder


def _is_told(t: torch.Tensor) -> bool:
    """Whether it holds numbers of the host: whole ones, and few."""
    return not t.is_floating_point() and t.nbytes <= _KEPT


class _Done(dist.Work):
    """A collective that is over."""

    def __init__(self, results: list[torch.Tensor]) -> None:
        super().__init__()
        self._results = results

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        made: Any = torch.futures.Future()
        made.set_result(self._results)
        return made

    def result(self) -> Any:
        return self._results


def _add(name: str) -> None:
    def run(self: _Group, *args: Any, **kwargs: Any) -> Any:
        return self._collective(name, args)

    run.__name__ = name
    setattr(_Group, name, run)


for _name in _KINDS:
    if hasattr(dist.ProcessGroup, _name):
        _add(_name)


class _Forget(torch.autograd.Function):
    """Clears what the thread of a backward pass keeps by mesh."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        _forget_natively()
        return grad


def _forget_natively() -> None:
    clear = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if clear is not None:
        clear()


def _forget_meshes() -> None:
    """Clears what DTensor keeps by mesh, in this thread and in that of backward passes: two ranks' meshes are equal,
    but not their places in them, nor the names of their groups."""
    loaded = [module for name, module in sys.modules.items() if name.startswith(_DTENSOR)]
    if not loaded:
        return
    from torch.distributed.tensor import DTensor

    values = (value for module in loaded for value in vars(module).values() if not isinstance(value, type))
    kept = [value for value in values if callable(getattr(value, "cache_clear", None))]
    for each in (*kept, DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding):
        each.cache_clear()
    _forget_natively()
    with torch.enable_grad():
        _Forget.apply(torch.zeros((), device="hpu", requires_grad=True)).backward()


@contextmanager
def _changed() -> Iterator[None]:
    """Within it objects are exchanged in tensors of the CPU, because a sum of their sizes on the card is computed by
    nobody, and DistributedDataParallel does not compare its parameters with those of ranks that are not there."""

    def on_cpu(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: call(*args, **{**kwargs, "device": torch.device("cpu")})

    made: dict[str, Any] = {name: on_cpu(getattr(dist, name)) for name in _OBJECTS}
    made["_verify_params_across_processes"] = lambda *_: None
    places = [(dist, name, call) for name, call in made.items()]
    places += [(_c10d, name, made[name]) for name in _OBJECTS]
    places.append((_c10d, "_get_object_coll_device", lambda *_: "cpu"))
    before = [getattr(module, name) for module, name, _ in places]
    for module, name, call in places:
        setattr(module, name, call)
    try:
        yield
    finally:
        for (module, name, _), call in zip(places, before, strict=True):
            setattr(module, name, call)


@contextmanager
def pretended(rank: int, size: int, cards: int, board: Board, steps: int | None = None) -> Iterator[Rank]:
    """Within it this process is a rank of a job of that size, on machines of so many cards. board: of the job. steps:
    of an optimizer, after which `Ended` leaves the program."""
    from habana_tf.torch.distributed import group

    group.register()
    made, saved = Rank(rank, size, board=board), {name: os.environ.get(name) for name in _VARIABLES}
    local = min(cards, size)
    board.begin()
    values = (rank, size, rank % local, local, "localhost", 29500)
    os.environ.update(zip(_VARIABLES, map(str, values), strict=True))
    handlers = dict(_meeting._rendezvous_handlers)

    def meet(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield dist.HashStore(), rank, size

    _meeting._rendezvous_handlers.update(dict.fromkeys(_METHODS, meet))

    def create(options: Any, _: Any) -> _Group:
        members = list(options.global_ranks_in_group) or list(range(size))
        return _Group(made, options.group_rank, members, str(options.group_id or ""))

    def ended(*_: Any) -> None:
        recorder.flush()
        made.events.append(StepEnd())
        if steps is not None and sum(isinstance(e, StepEnd) for e in made.events) >= steps:
            raise Ended

    before, group.pretended = group.pretended, create
    hook = register_optimizer_step_post_hook(ended)
    try:
        with _changed(), recorded(lambda: _Recorder(made)) as recorder:
            _forget_meshes()
            recorder.flush()
            made.events.clear()
            try:
                yield made
                recorder.flush()
            finally:
                made.alive = recorder.memory.most
                if dist.is_initialized():
                    dist.destroy_process_group()
        _forget_meshes()
    finally:
        hook.remove()
        group.pretended = before
        _meeting._rendezvous_handlers.clear()
        _meeting._rendezvous_handlers.update(handlers)
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def last_step(rank: Rank) -> list[UnrunLaunch | Collective]:
    """The launches and collectives of the last step; of the whole program where it makes less than two."""
    ends = [k for k, event in enumerate(rank.events) if isinstance(event, StepEnd)]
    first, last = (ends[-2] + 1, ends[-1]) if len(ends) > 1 else (0, len(rank.events))
    return [event for event in rank.events[first:last] if not isinstance(event, StepEnd)]
