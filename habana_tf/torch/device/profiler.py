"""Adds the device's events to torch.profiler: launches to the function events, the whole timeline to a Chrome trace.

PyTorch's profiler gets events of devices from libraries in C++ only. So while a profiler with the activity HPU (or
PrivateUse1) is active, the runtime records its own timeline, and its events are added where PyTorch's results are read.
`events()` and `key_averages()` get each launch, with its time on this host. A Chrome trace gets what `habana-tf trace`
writes: launches, kernel calls, copies, ops on the CPU, and the card's engines as predicted. All times are of one clock.
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
"""Our process numbers in a Chrome trace begin here, above all real ones."""


@dataclass
class _Window:
    """Of one profiler: the recording that is running, and the record of the last one."""

    recording: TimelineRecording | None = None
    record: Record | None = None


_windows: weakref.WeakKeyDictionary[Any, _Window] = weakref.WeakKeyDictionary()


def supporting(original: Any) -> Any:
    """`_supported_activities`: adds HPU, which PyTorch 2.10 built for CUDA leaves out."""

    @functools.wraps(original)
    def _supported_activities() -> Any:
        from torch.autograd import ProfilerActivity

        return {*original(), ProfilerActivity.HPU}

    return _supported_activities


def starting(original: Any) -> Any:
    """`_start_trace` of torch.autograd.profiler.profile: begins a recording."""

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
    """`__exit__`: ends the recording, after what was recorded in lazy mode has run."""

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
    """`_ensure_function_events`: adds the launches."""

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
    """`export_chrome_trace`: adds the device's processes to the file."""

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
    """The launches as function events. zero: when the profiler began, in nanoseconds of the time of day."""
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
    """The timeline as Chrome trace events. zero: from when the file counts its times, in nanoseconds of the time of
    day."""
    from habana_tf.card.timeline import chrome, part

    offset = (record.begin + record.clock.realtime - record.clock.monotonic - zero) / _NS_PER_US
    found: list[dict[str, Any]] = chrome.trace([part.make(record)])["traceEvents"]
    for event in found:
        event["pid"] += _FIRST_PROCESS
        if "ts" in event:
            event["ts"] += offset
    return found
