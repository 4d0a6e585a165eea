"""`torch.hpu.Stream` and `torch.hpu.Event`.

On a card the programs of several streams run side by side. Here a launch returns when its program has run, so the only
work that may be pending is what was recorded and not launched: `synchronize` and `wait` launch it, `query` asks if
there is any. Times are those of this host; `card_time_report` predicts a card's.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from typing import Any

import torch

from habana_tf.torch.record import program_ends
from habana_tf.torch.record.current import index, recorder

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]

_ids = itertools.count(1)
_current = threading.local()


class Stream(torch.Stream):
    """A queue of work. device, priority: have no effect, since there is one card and one priority."""

    def __new__(cls, device: Any = None, priority: int = 0, **ignored: Any) -> Any:
        return super().__new__(cls, device=torch.device("hpu", index(device)))

    def __init__(self, device: Any = None, priority: int = 0, *, number: int | None = None, **ignored: Any) -> None:
        self.priority = priority
        self.hpu_stream = next(_ids) if number is None else number

    @property
    def stream_id(self) -> int:
        """The stream's number, which is `hpu_stream`, too."""
        return self.hpu_stream

    def query(self) -> bool:
        """Whether all its work is done."""
        return not recorder().waiting

    def synchronize(self) -> None:
        """Waits for all its work."""
        program_ends.flush("a stream is waited for")

    def record_event(self, event: Event | None = None) -> Event:
        """Marks this place in the stream."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Has later work wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Has later work wait for that of another stream so far."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        self._before = current_stream()
        set_stream(self)
        return self

    def __exit__(self, *exception: object) -> None:
        set_stream(self._before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.hpu_stream == self.hpu_stream

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.hpu_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} hpu_stream={self.hpu_stream:#x}>"


class Event(torch.Event):
    """A mark in a stream. enable_timing: whether `elapsed_time` may be asked."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return super().__new__(cls, device=torch.device("hpu"))

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._at: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Sets the mark here. Runs what was recorded before."""
        program_ends.flush("an event is recorded")
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        """Whether the work before it is done: always, because `record` ran it."""
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Does nothing: later work runs after it anyway."""

    def synchronize(self) -> None:
        """Waits for the work before it."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. Raises ValueError or RuntimeError in PyTorch's words."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) / 1e6

    def __repr__(self) -> str:
        return f"<torch.hpu.Event {'uninitialized' if self._at is None else hex(self._at)}>"


@functools.cache
def _default() -> Stream:
    return Stream(number=0)


def default_stream(device: Any = None) -> Stream:
    """The stream of work that asks for none."""
    index(device)
    return _default()


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread has chosen."""
    index(device)
    chosen: Stream | None = getattr(_current, "stream", None)
    return _default() if chosen is None else chosen


def compute_stream() -> int:
    """The number of the stream that this thread's work goes to."""
    number: int = current_stream().hpu_stream
    return number


def set_stream(stream: Stream | None) -> None:
    """Chooses a stream for this thread; None changes nothing."""
    if stream is not None:
        _current.stream = stream


class StreamContext:
    """Chooses a stream for a while; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> Stream | None:
        self.before = current_stream()
        set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception: object) -> None:
        set_stream(self.before)


def stream(stream: Stream | None) -> StreamContext:
    """See StreamContext."""
    return StreamContext(stream)
