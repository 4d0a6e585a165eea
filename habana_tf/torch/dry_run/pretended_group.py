"""Process groups of a job that does not exist: they answer at once, and note what they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeProcessGroup

from habana_tf.card.prediction.ranks import Collective
from habana_tf.torch.distributed.kinds import KINDS
from habana_tf.torch.distributed.work import Several, Work
from habana_tf.torch.dry_run.known_values import is_told
from habana_tf.torch.dry_run.rank import Rank, RankRecorder
from habana_tf.torch.record import current, scopes
from habana_tf.torch.record.nested import tensors


class PretendedGroup(dist.ProcessGroup):
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
        return _done([])

    def send(self, sent: Sequence[torch.Tensor], to: int, tag: int = 0) -> Any:
        return self._message("send", sent, (self.rank(), to), [])

    def recv(self, received: Sequence[torch.Tensor], of: int, tag: int = 0) -> Any:
        return self._message("recv", received, (of, self.rank()), received)

    def _message(self, kind: str, found: Sequence[torch.Tensor], pair: tuple[int, int], written: Any) -> Any:
        ranks = tuple(self._members[k] for k in pair)
        if any(is_told(t) for t in found):
            self._tell(("message", *ranks, self._called), found, ranks[0], kind == "send")
            return _done(found)
        self._note(kind, sum(t.nbytes for t in found), [] if kind == "recv" else found, written, ranks)
        return _done(found)

    def _start_coalescing(self, device: Any) -> None:
        pass

    def _end_coalescing(self, device: Any) -> Any:
        return _done([])

    def _tell(self, key: tuple[Any, ...], found: Sequence[torch.Tensor], of: int, says: bool) -> None:
        """Hands numbers of the host from one rank to others."""
        for t in found:
            of_card = t.device.type == "hpu"
            if says:
                self._job.board.say(key, _recorder().settled(t).viewed(t) if of_card else t)
                continue
            heard = self._job.board.hear(key, of)
            if of_card:
                _recorder().settled(t)
                _recorder().tell(t, heard)
            else:
                t.copy_(heard)

    def _collective(self, name: str, args: tuple[Any, ...]) -> Any:
        kind, counted, read = KINDS[name]
        found = [list(tensors(a)) for a in args[:2]]
        results = found[0]
        if kind == "broadcast" and all(is_told(t) for t in results):
            root = self._members[args[1].rootRank if len(args) > 1 else 0]
            self._tell(("broadcast", self._called), results, root, root == self._job.number)
        elif any(t.device.type == "hpu" for side in found for t in side):  # one is empty where another rank is the root
            self._note(kind, sum(t.nbytes for t in found[counted]), found[read], results)
        else:
            op = getattr(args[1], "reduceOp", None) if len(args) > 1 else dist.ReduceOp.SUM
            self._on_cpu(kind, found, op == dist.ReduceOp.SUM)
        return _done(results)

    def _on_cpu(self, kind: str, found: list[list[torch.Tensor]], summed: bool) -> None:
        """Of tensors of the CPU: what results hold if all ranks have the same. summed: whether they are reduced by a
        sum, and by no choice or mean."""
        results, given = found[0], found[1] if len(found) > 1 else []
        if kind == "all_reduce" and summed:
            for t in results:
                t.mul_(self.size())
        elif kind in ("all_gather", "gather", "all_to_all") and given:
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
        line = scopes.line() or scopes.line_of_main()
        self._job.events.append(Collective(kind, nbytes, ranks or self._members, self._called, reads, writes, line))


class PretendedGloo(PretendedGroup):
    """A group of the CPU's backend. torch.distributed makes it before it says of which ranks it is. job: the rank."""

    job: Rank
    options: Any = None

    def __init__(self, store: Any, number: int, size: int, timeout: timedelta | None = None) -> None:
        super().__init__(self.job, number, range(size), "")
        self.options = SimpleNamespace(global_ranks_in_group=[], group_name="")

    def _set_sequence_number_for_group(self) -> None:
        """Called once it has said so."""
        self._members = tuple(self.options.global_ranks_in_group) or self._members
        self._called = self.options.group_name

    def getBackendName(self) -> str:
        return "gloo"

    def name(self) -> str:
        return "gloo"

    monitored_barrier = PretendedGroup.barrier


def _recorder() -> RankRecorder:
    recorder = current.recorder()
    assert isinstance(recorder, RankRecorder)
    return recorder


def _done(results: Sequence[torch.Tensor]) -> Work:
    """A collective that is over."""
    return Work(Several([]), list(results), [], "a pretended collective")


def _add(name: str) -> None:
    def run(self: PretendedGroup, *args: Any, **kwargs: Any) -> Any:
        with torch.utils._python_dispatch._disable_current_modes():  # nor does a real group show them what it does
            return self._collective(name, args)

    run.__name__ = name
    setattr(PretendedGroup, name, run)


for _name in KINDS:
    if hasattr(dist.ProcessGroup, _name):
        _add(_name)
