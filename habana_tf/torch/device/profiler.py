"""torch.profiler with the device's events: launches among the function events, the whole timeline in a Chrome trace.

PyTorch's profiler takes events of a device from a library in C++ that registers with Kineto; from Python there is no
way in. So while a profiler with the activity HPU (or PrivateUse1) is active, the runtime's own record is on, and what
it has is added where PyTorch's results are read: `events()` and `key_averages()` get each launch, with the time that it
took on this host, and a Chrome trace gets what `habana-tf trace` writes: launches, kernel calls, copies, ops on the
CPU, and the card's engines as predicted. Times are of the same clock.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from habana_tf.card.timeline.record import EventKind, Record, TimelineRecording

_NS_PER_US = 1000
_FIRST_PROCESS = 900_000_000
"""Processes of ours in a Chrome trace are numbered from here, where no real one is."""


@dataclass
class _Window:
    """Of one profiler: the recording that is under way, and what the last one had."""

    recording: TimelineRecording | None = None
    record: Record | None = None


_windows: weakref.WeakKeyDictionary[Any, _Window] = weakref.WeakKeyDictionary()


def supporting(original: Any) -> Any:
    """`_supported_activities`: HPU is one of them, which a build of PyTorch 2.10 for CUDA leaves out."""

    @functools.wraps(original)
    def _supported_activities() -> Any:
        from torch.autograd import ProfilerActivity

        return {*original(), ProfilerActivity.HPU}

    return _supported_activities


def starting(original: Any) -> Any:
    """`_start_trace` of torch.autograd.profiler.profile: the window of a profiler begins."""

    @functools.wraps(original)
    def _start_trace(self: Any) -> Any:
        if self.use_device == "hpu":
            window = _windows.setdefault(self, _Window())
            if window.recording is not None:
                window.recording.stop()
            window.recording, window.record = TimelineRecording(), None
        return original(self)

    return _start_trace


def ending(original: Any) -> Any:
    """`__exit__`: the window ends, after what was recorded in lazy mode has run."""

    @functools.wraps(original)
    def __exit__(self: Any, *why: Any) -> Any:
        try:
            return original(self, *why)
        finally:
            window = _windows.get(self)
            if window is not None and window.recording is not None:
                recording, window.recording = window.recording, None
                window.record = recording.read()
                recording.stop()

    return __exit__


def parsing(original: Any) -> Any:
    """`_ensure_function_events`: the launches are among the events."""

    @functools.wraps(original)
    def _ensure_function_events(self: Any) -> Any:
        before = self._function_events
        found = original(self)
        window = _windows.get(self)
        if self._function_events is not before and window is not None and window.record is not None:
            self._function_events.extend(_launches(window.record, self.kineto_results.trace_start_ns()))
        return found

    return _ensure_function_events


def exporting(original: Any) -> Any:
    """`export_chrome_trace`: the file has the device's processes, too."""

    @functools.wraps(original)
    def export_chrome_trace(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        done = original(self, path, *args, **kwargs)
        window = _windows.get(self)
        if window is not None and window.record is not None:
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
            trace["traceEvents"] += _events(window.record, int(trace.get("baseTimeNanoseconds", 0)))
            with open(path, "w", encoding="utf-8") as file:
                json.dump(trace, file)
        return done

    return export_chrome_trace


def _launches(record: Record, zero: int) -> Iterator[Any]:
    """Function events. zero: nanoseconds of the time of day at which the profiler's began."""
    from torch.autograd import DeviceType
    from torch.autograd.profiler_util import FunctionEvent

    offset = record.clock.realtime - record.clock.monotonic - zero
    for number, e in enumerate(record.events(EventKind.LAUNCH)):
        name = record.programs.get(e.subject, "a program")
        start, end = ((t + offset) / _NS_PER_US for t in (e.start, e.end))
        yield FunctionEvent(
            id=-1 - number, name=name, thread=0, start_us=start, end_us=end, use_device="hpu",
            device_type=DeviceType.PrivateUse1, device_index=0, stack=[], input_shapes=[],
        )  # fmt: skip


def _events(record: Record, zero: int) -> list[dict[str, Any]]:
    """Chrome trace events. zero: nanoseconds of the time of day that the file's times count from."""
    from habana_tf.card.timeline import chrome, part

    offset = (record.begin + record.clock.realtime - record.clock.monotonic - zero) / _NS_PER_US
    found: list[dict[str, Any]] = chrome.trace([part.make(record)])["traceEvents"]
    for event in found:
        event["pid"] += _FIRST_PROCESS
        if "ts" in event:
            event["ts"] += offset
    return found
