"""The ops that TensorFlow runs on the CPU between the launches, from TensorFlow's own profiler.

TensorFlow allows one profiler session per process: while this one runs, the program can start none.
"""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from habana_tf.card.timeline import xspace
from habana_tf.tensorflow.profiler import session

_HOST = "/host:CPU"
_MESSAGES = ("tensorflow.tsl.profiler.protobuf.xplane_pb2", "tensorflow.core.profiler.protobuf.xplane_pb2")
"""Where releases of TensorFlow have XSpace's messages."""
_OURS = ("HpuLaunch", "HpuCollectiveReduce")
MOST_OPS = 200_000


class CpuOps:
    """A session from its making to `stop`."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._folder = tempfile.TemporaryDirectory(prefix="habana-tf-cpu-ops-")
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(self._folder.name, options)

    def stop(self) -> list[tuple[str, str, int, int]]:
        """(thread, op, start, end) of the ops, in nanoseconds of CLOCK_MONOTONIC; of many the first."""
        import tensorflow as tf

        try:
            tf.profiler.experimental.stop()
            found = [path.read_bytes() for path in Path(self._folder.name).rglob("*.xplane.pb")]
        finally:
            self._folder.cleanup()
        return _ops(found[0], session.last_begin()) if found else []


def _ops(data: bytes, began: int) -> list[tuple[str, str, int, int]]:
    """began: CLOCK_MONOTONIC at the beginning of our plane in the XSpace, the origin of its times."""
    space = _messages().XSpace.FromString(data)
    ours = [plane for plane in space.planes if plane.name.startswith(xspace.HPU_PLANE)]
    lines = [line for plane in ours for line in plane.lines]
    if not lines:  # nothing was launched, and there is nothing between launches
        return []
    zero = began - lines[0].timestamp_ns
    out = []
    for plane in space.planes:
        if plane.name != _HOST:
            continue
        for line in plane.lines:
            for event in line.events:
                name, colon, type_ = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if not colon or not type_.isidentifier() or type_ in _OURS or ":" in name:
                    continue
                start = zero + line.timestamp_ns + event.offset_ps // 1000
                out.append((line.name, f"{name} ({type_})", start, start + event.duration_ps // 1000))
    return sorted(out, key=lambda op: op[2])[:MOST_OPS]


def _messages() -> Any:
    for name in _MESSAGES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module, "XSpace"):
            return module
    raise ImportError(f"this TensorFlow has XSpace's messages in none of {', '.join(_MESSAGES)}")
