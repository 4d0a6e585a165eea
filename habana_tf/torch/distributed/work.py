"""What a collective gives: something to wait for, whose results are tensors of the device."""

from __future__ import annotations

import contextlib
import time
from concurrent import futures
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from habana_tf.torch.distributed.stalls import Watched

_ADVICE = ("If a rank has ended or takes no part, the first error in the output of all ranks says why; a rank that "
           "needs longer gets it by init_process_group(timeout=...)")  # fmt: skip
_TURN = timedelta(seconds=1)
_ANY_TIME = timedelta(0)
"""How PyTorch says that a wait has no limit of its own."""


class Summing:
    """A sum of the exchange that is under way, with what PyTorch asks of a Work of the CPU."""

    def __init__(self, running: futures.Future[None]) -> None:
        self._running = running
        self._gate: Any = torch.futures.Future()
        # An exception that is set on a Future of PyTorch reaches Python only; one that `then` raises reaches C++ too.
        self._future = self._gate.then(lambda _: running.result())
        running.add_done_callback(lambda _: self._gate.set_result(None))

    def wait(self, timeout: timedelta = _ANY_TIME) -> bool:
        """Raises what the sum raised, TimeoutError where it is not done in time."""
        self._running.result(timeout.total_seconds() or None)
        return True

    def is_completed(self) -> bool:
        return self._running.done()

    def get_future(self) -> Any:
        return self._future


class Never:
    """A collective that is not begun, because ranks call different ones. seconds: after which who waits for it ends,
    if it is not known before which."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def wait(self, timeout: timedelta = _ANY_TIME) -> bool:
        """Raises TimeoutError after that time."""
        time.sleep((timeout or _TURN).total_seconds())
        raise TimeoutError("other ranks call another collective, or one of another size")

    def is_completed(self) -> bool:
        return time.monotonic() > self._end

    def get_future(self) -> Any:
        raise RuntimeError("a collective that other ranks do not call has no future")


class Several:
    """Collectives that PyTorch takes for one: done when all are."""

    def __init__(self, works: list[Any]) -> None:
        self._works = works

    def wait(self, timeout: timedelta = _ANY_TIME) -> bool:
        """Raises what the first that failed raises."""
        for work in self._works:
            work.wait(timeout) if timeout else work.wait()
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def get_future(self) -> Any:
        return torch.futures.collect_all([work.get_future() for work in self._works])


class Work(dist.Work):
    """A collective on tensors of the device.

    under: the work of the CPU that does it, on the same memory. results: what a future of it gives. held: tensors whose
    memory is in use until it is done. what: failed, for an error. watched: what is known of the other ranks.
    """

    def __init__(
        self, under: Any, results: list[torch.Tensor], held: list[torch.Tensor], what: str,
        watched: Watched | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._watched = watched
        self._under, self._results, self._held, self._what = under, results, held, what
        self._waited = False
        self._failed: Exception | None = None
        self._future: Any = None
        with contextlib.suppress(RuntimeError):  # of sending, receiving and scattering sums, which need their Work
            under.get_future().add_done_callback(lambda _: held)  # which keeps them, also where the Work is dropped

    def wait(self, timeout: timedelta = _ANY_TIME) -> bool:
        """Waits until the results are there. Raises torch.distributed.DistBackendError where a rank is gone or late."""
        if not self._waited:
            try:
                self._wait(timeout)
            except (RuntimeError, TimeoutError) as why:
                told = str(why) or "it is not done in the time that `wait` was given"
                self._failed = dist.DistBackendError(f"hccl: {self._explained(told)}. {_ADVICE}")
                raise self._failed from None
            finally:
                self._waited = True
                self._held = []
        elif self._failed is not None:
            raise self._failed
        return True

    def _wait(self, timeout: timedelta) -> None:
        """In short turns, between which it may become known that this never ends. Not so for messages, which a time
        limit ends."""
        watched = self._watched
        if watched is not None:
            watched.begins()
        if timeout or watched is None or not watched.in_turns or isinstance(self._under, Several):
            self._under.wait(timeout) if timeout else self._under.wait()
            return
        while True:
            try:
                self._under.wait(_TURN)
                return
            except (RuntimeError, TimeoutError):
                if self._under.is_completed():
                    self._under.wait()  # for what it raises; if nothing, it was done just behind the end of the turn
                    return
                watched.check()

    def _explained(self, told: str) -> str:
        """What the CPU's work says, with what is known of the other ranks."""
        more = self._watched.diagnosed() if self._watched is not None else ""
        return f"{self._what}: {told}" + (f" ({more})" if more and more != told else "")

    def synchronize(self) -> None:
        """As `wait`: nothing of a card runs by itself."""
        self.wait()

    def is_completed(self) -> bool:
        return self._waited or bool(self._under.is_completed())

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """What `wait` raises; None while it is under way."""
        if not self.is_completed():
            return None
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    def result(self) -> list[torch.Tensor]:
        """The tensors that have the results, once they are there."""
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """A torch.futures.Future of the results."""
        if self._future is None:
            try:
                self._future = self._under.get_future().then(self._deliver)
            except RuntimeError:
                self.wait()
                self._future = torch.futures.Future()
                self._future.set_result(self._results)
        return self._future

    def _deliver(self, done: Any) -> list[torch.Tensor]:
        try:
            done.value()
        except RuntimeError as why:
            raise dist.DistBackendError(f"hccl: {self._explained(str(why))}. {_ADVICE}") from None
        return self._results

    def source_rank(self) -> int:
        """The rank of its group from which it received."""
        return int(self._under.source_rank())

    _source_rank = source_rank
