"""The messages of XSpace as TensorFlow's wheel has them: the oracle of what is written by hand."""

from __future__ import annotations

import importlib
from typing import Any


def xspace(data: bytes) -> Any:
    """A parsed XSpace."""
    for name in ("tensorflow.tsl.profiler.protobuf.xplane_pb2", "tensorflow.core.profiler.protobuf.xplane_pb2"):
        try:
            module = importlib.import_module(name)
            return module.XSpace.FromString(data)
        except (ImportError, AttributeError):
            continue
    raise AssertionError("no module of XSpace's messages in this TensorFlow")


def plane(space: Any, beginning: str) -> Any:
    """The plane whose name begins so."""
    (found,) = (p for p in space.planes if p.name.startswith(beginning))
    return found


def names(of: Any, line: Any) -> list[str]:
    """Of the events of a line."""
    return [of.event_metadata[e.metadata_id].name for e in line.events]


def stats(of: Any, event: Any) -> dict[str, Any]:
    """Of an event, by name; those of its kind too."""
    found = {}
    for stat in (*of.event_metadata[event.metadata_id].stats, *event.stats):
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind)
        found[of.stat_metadata[stat.metadata_id].name] = of.stat_metadata[value].name if kind == "ref_value" else value
    return found
