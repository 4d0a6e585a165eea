"""The backend `hccl`: collectives on tensors of the device, which the CPU's backend gloo does on the same memory.

A tensor of the device and its counterpart of the CPU share their bytes, so a collective is: run what was recorded, if
memory is not yet what the program says; hand the counterparts to gloo; give a Work whose results are the tensors of the
device. Sums of ranks that share a host, which is what training in parallel does, go through shared memory instead
(`hardware/exchange.py`, kernels/runtime/exchange.h), as those of HPUStrategy.

A `ProcessGroup` in Python and not only a Backend: PyTorch hands all of a group's collectives to it, those of its
C++ code included (DistributedDataParallel, functional collectives), whatever devices their tensors are on.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from habana_tf._native import _bridge
from habana_tf.hardware import exchange
from habana_tf.torch import changes
from habana_tf.torch.changes import data_parallel
from habana_tf.torch.dispatch import fallback
from habana_tf.torch.distributed import batch_norm, stalls
from habana_tf.torch.distributed.agreement import Agreement
from habana_tf.torch.distributed.calls import Call, Calls
from habana_tf.torch.distributed.kinds import KINDS, nbytes
from habana_tf.torch.distributed.stalls import Watched
from habana_tf.torch.distributed.work import Never, Several, Summing, Work
from habana_tf.torch.loader import load
from habana_tf.torch.record.nested import tensors
from habana_tf.torch.record.program_ends import ending

NAME = "hccl"
_CPU = torch.device("cpu")
_SUMMED = {torch.float32: 1, torch.float64: 2, torch.int64: 9, torch.bfloat16: 14}
"""Types that the exchange sums, with their numbers there (kernels/runtime/exchange.h)."""
_READ = {
    "allreduce": -1, "allreduce_coalesced": -1, "broadcast": -1, "reduce": -1, "recv": -1, "recv_anysource": -1,
    "send": 0, "allgather": 1, "_allgather_base": 1, "allgather_coalesced": 1, "allgather_into_tensor_coalesced": 1,
    "all_gather_single": 1, "all_gather_single_coalesced": 1, "reduce_scatter": 1, "_reduce_scatter_base": 1,
    "reduce_scatter_tensor_coalesced": 1, "reduce_scatter_single": 1, "reduce_scatter_single_coalesced": 1,
    "gather": 1, "scatter": 1, "alltoall": 1, "alltoall_base": 1, "all_to_all_single": 1,
}  # fmt: skip
"""Collectives, by the argument that is only read; -1 where all tensors may be written. Some have two names, of which
older releases of PyTorch know one."""

_TAG = 1 << 24
"""Of messages that are parts of a collective; a program's own have small ones."""
_FLAT = frozenset({
    "_allgather_base", "all_gather_single", "allgather_into_tensor_coalesced", "all_gather_single_coalesced",
    "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
})  # fmt: skip
"""Of these, those that take the elements of a tensor for parts of the ranks whatever its shape; gloo asks for one."""


class HcclGroup(dist.ProcessGroup):
    """A process group whose tensors are on cards. One rank is one process with one card.

    store: in which its ranks find each other. timeout: how long a rank waits for others. members: its ranks, of the
    job; called: its name.
    Making one is a collective: it returns when all ranks are there.
    """

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, members: Sequence[int] = (), called: str = ""
    ) -> None:
        super().__init__(rank, size)
        kind = dist.ProcessGroup.BackendType
        self._members = tuple(members) or tuple(range(size))
        self._calls = Calls(called, self._members)
        self._watch = stalls.watch(store, self._members[rank], self._calls, not members) if size > 1 else None
        making = self._calls.message("new_group" if members else "init_process_group", 0, self._members)
        making.waits = True
        self._gloo = self._calls.backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._host = dist.ProcessGroup(store, rank, size)
        self._host._register_backend(_CPU, kind.GLOO, self._gloo)
        self._host._set_default_backend(kind.GLOO)
        for device in (torch.device("hpu"), _CPU):  # for those who ask about its backends
            self._register_backend(device, kind.CUSTOM, self._gloo)
        self._set_default_backend(kind.CUSTOM)
        self._exchange = self._meet() if size > 1 else None
        self._agreement = None if self._exchange is None else Agreement(self._gather, rank, size)
        making.over()
        self._thread: futures.ThreadPoolExecutor | None = None
        self._sums = 0
        self._coalesced: list[Any] | None = None
        if self._exchange is not None:
            weakref.finalize(self, _bridge.leave_exchange, self._exchange)

    def getBackendName(self) -> str:
        """What PyTorch's C++ code calls it."""
        return NAME

    def name(self) -> str:
        return NAME

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        """Waits for all ranks. What they have recorded is not run."""
        given = args[0] if args else kwargs.get("opts")
        options = dist.BarrierOptions()
        if given is not None:
            options.timeout = given.timeout
        call = self._calls.begin("barrier", 0)
        return self._work(call, self._gloo.barrier(options), [], [], "barrier")

    # -- a collective -------------------------------------------------------------------------------------

    def _start_coalescing(self, device: Any) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any) -> Any:
        """One Work for what was begun since `_start_coalescing`."""
        works, self._coalesced = self._coalesced or [], None
        return Work(Several(works), [], [], self._what("one of several collectives"))

    def _run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        work = self._begin(name, args, kwargs)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _begin(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held = _of_card(args)
        call = self._called(name, args)
        try:
            return self._make(name, args, kwargs, held, call)
        except BaseException:
            call.over()
            raise

    def _called(self, name: str, args: tuple[Any, ...]) -> Call:
        """Notes what is called."""
        if name in KINDS:
            return self._calls.begin(KINDS[name][0], nbytes(name, args))
        other = args[1] if len(args) > 1 and name != "recv_anysource" else self.rank()
        pair = (self.rank(), other) if name == "send" else (other, self.rank())
        size = sum(t.nbytes for t in tensors(args[0]))
        return self._calls.message(name, size, (self._members[pair[0]], self._members[pair[1]]))

    def _work(
        self, call: Call, under: Any, results: list[torch.Tensor], held: list[torch.Tensor], name: str
    ) -> Work:  # fmt: skip
        made = Work(under, results, held, self._what(name), Watched(self._watch, self._calls, call))
        call.follow(made)
        return made

    def _make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], held: Any, call: Call) -> Any:
        if held and name in ("allreduce", "allreduce_coalesced"):
            work = self._sum(args[0], args[1] if len(args) > 1 else kwargs.get("opts"), call)
            if work is not None:
                return work
        if self._agreement is not None and call.number and not self._agreement.holds(call.number, call.what):
            return self._work(call, Never(self._timeout(None)), [], [], name)
        if not held:
            under = getattr(self._host, name)(*args, **kwargs)
            return self._work(call, under, list(tensors(args[0])), [], name)
        if name == "alltoall":
            return self._all_to_all(args[0], args[1], held, call)
        read = _READ[name]
        given = [self._on_host(a, k != read, name in _FLAT) for k, a in enumerate(args)]
        results = _of_card(args[0])
        options = next(
            (a for a in (*args, *kwargs.values()) if getattr(a, "reduceOp", None) == dist.ReduceOp.AVG), None
        )
        if options is not None and any(not t.is_floating_point() for t in results):
            under = self._whole_mean(name, given, kwargs, options)
        else:
            under = getattr(self._host, name)(*given, **kwargs)
        return self._work(call, under, results, held, name)

    def _whole_mean(self, name: str, given: list[Any], kwargs: dict[str, Any], options: Any) -> Summing:
        """The mean of whole numbers over the ranks, towards 0 as NCCL has it: gloo makes only their sum."""
        options.reduceOp = dist.ReduceOp.SUM
        try:
            under = getattr(self._host, name)(*given, **kwargs)
        finally:
            options.reduceOp = dist.ReduceOp.AVG
        written = [] if name == "reduce" and options.rootRank != self.rank() else list(tensors(given[0]))

        def run() -> None:
            under.wait()
            for t in written:
                self._divide(t)

        return Summing(self._started(run, getattr(options, "asyncOp", True)))

    def _divide(self, t: torch.Tensor) -> None:
        """Makes a sum over the ranks their mean."""
        t.div_(self.size(), rounding_mode=None if t.is_floating_point() else "trunc")

    def _all_to_all(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], held: list[torch.Tensor], call: Call
    ) -> Work:
        """By messages between any two ranks: gloo's own wants tensors of one size."""
        sent = [self._on_host(t, False, False) for t in inputs]
        received = [self._on_host(t, True, False) for t in outputs]
        rank = self.rank()
        others = [r for r in range(self.size()) if r != rank]
        received[rank].copy_(sent[rank])
        works = [self._gloo.recv([received[r]], r, _TAG) for r in others]
        works += [self._gloo.send([sent[r]], r, _TAG) for r in others]
        return self._work(call, Several(works), outputs, held, "alltoall")

    def _on_host(self, value: Any, write: bool, flat: bool) -> Any:
        """An argument with tensors of the CPU in the place of those of the device, on their memory."""
        if isinstance(value, torch.Tensor) and value.device.type == "hpu":
            host = self._host_view(value, write)
            return host.view(-1) if flat and host.is_contiguous() else host
        return [self._on_host(x, write, flat) for x in value] if isinstance(value, (list, tuple)) else value

    def _host_view(self, t: torch.Tensor, write: bool) -> torch.Tensor:
        """One that other threads may write: PyTorch forbids them to write what was made in inference mode."""
        with torch.inference_mode(False), ending("a collective"):
            return fallback.host_view(t, write)

    def _what(self, name: str) -> str:
        """A collective of this rank, for errors."""
        return f"{name.strip('_')} failed on rank {self.rank()} of {self.size()}"

    # -- sums through shared memory -----------------------------------------------------------------------

    def _meet(self) -> int | None:
        """The exchange of the ranks, where all are on one host."""
        longer = "init_process_group(timeout=...)"
        return exchange.meet(self._gather, self.rank(), self.size(), "rank", self.rank(), "gloo", longer)

    def _gather(self, *numbers: int) -> Any:
        """Numbers of all ranks, a row of each."""
        mine = torch.tensor(numbers, dtype=torch.int64, device=_CPU)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size())]
        self._host.allgather([all_of_them], [mine]).wait()
        return np.stack([each.numpy() for each in all_of_them])

    def _sum(self, tensors: list[torch.Tensor], options: Any, call: Call) -> Work | None:
        """The sums or means of tensors over the ranks; None where the exchange does not make them."""
        op = dist.ReduceOp.SUM if options is None else options.reduceOp
        mean = op == dist.ReduceOp.AVG
        if self._exchange is None or not (mean or op == dist.ReduceOp.SUM):
            return None
        if not all(t.dtype in _SUMMED and t.is_contiguous() for t in tensors):
            return None
        hosts = [self._host_view(t, True) for t in tensors]
        number, first, timeout = self._exchange, self._sums, self._timeout(options)
        self._sums += len(hosts)

        def run() -> None:
            for k, t in enumerate(hosts):
                key, place = first + k, t.data_ptr()
                _bridge.run_sum(number, key, _SUMMED[t.dtype], t.numel(), place, place, timeout)
                if mean:
                    self._divide(t)

        work = Summing(self._started(run, options is None or getattr(options, "asyncOp", True)))
        return self._work(call, work, tensors, list(tensors), "allreduce")

    def _started(self, run: Callable[[], None], apart: bool) -> futures.Future[None]:
        """Runs it; apart: in a thread of the group, one after the other."""
        if apart:
            if self._thread is None:
                self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="hccl")
            return self._thread.submit(run)
        done: futures.Future[None] = futures.Future()
        try:
            run()
            done.set_result(None)
        except RuntimeError as why:
            done.set_exception(why)
        return done

    def _timeout(self, options: Any) -> float:
        """Seconds that a rank waits for others."""
        asked = timedelta(0) if options is None else options.timeout
        return (asked if asked > timedelta(0) else self._gloo.options._timeout).total_seconds()


def _of_card(value: Any) -> list[torch.Tensor]:
    return [t for t in tensors(value) if t.device.type == "hpu"]


def _collective(name: str) -> Callable[..., Any]:
    def run(self: HcclGroup, *args: Any, **kwargs: Any) -> Any:
        return self._run(name, args, kwargs)

    run.__name__ = name
    return run


for _name in filter(lambda name: hasattr(dist.ProcessGroup, name), _READ):
    setattr(HcclGroup, _name, _collective(_name))


pretended: Callable[[Any, Any], dist.ProcessGroup] | None = None
"""What makes groups instead, while a program is one rank of a job that does not exist (`dry_run.world`)."""


def _create(options: Any, rest: Any) -> dist.ProcessGroup:
    """What torch.distributed calls for each group of the backend."""
    if pretended is not None:
        return pretended(options, rest)
    members, called = list(options.global_ranks_in_group), str(options.group_id or "")
    return HcclGroup(options.store, options.group_rank, options.group_size, options.timeout, members, called)


def register() -> None:
    """Has torch.distributed know the backend."""
    load()
    if NAME not in dist.Backend.backend_list:
        batch_norm.register()
        changes.install(data_parallel.GROUPS)
        # DistributedDataParallel says so in each process; nothing here reads its timers.
        warnings.filterwarnings("ignore", "Time stats are currently only collected for CPU and CUDA devices")
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["hpu", "cpu"])
