"""What a recipe was compiled from: a cluster, its input shapes and the values that fix shapes.

It is kept with the recipe, in two sections (see `aside`), so that a tool can show the cluster, and lower and compile it
again:
    graph      JSON, for who has no TensorFlow: {"inputs": [name, ...], "ops": [[op, name, [ref, ...]], ...],
               "outputs": [ref, ...], "shapes": [...], "values": [...], "dims": [...]};
               a ref is [op, output], op -1 the inputs
    cluster    the serialized cluster (see `graph.cluster`)

Shapes and values may hold symbolic extents, as in a recipe for a range of sizes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.cluster import Cluster, parse
from ..lowering.lower import lower
from . import aside
from .dtypes import from_label
from .extent import Extent
from .ir import Program
from .recipe import pack_extent, unpack_extent

MOST_SCOPES = 8


@dataclass(frozen=True)
class Source:
    """data: the serialized form of `cluster`. values: one per input; None for those that fix no shape. dims: values
    of the symbols in them, which decide what depends on the size (see `premises`)."""

    data: bytes
    cluster: Cluster
    shapes: Sequence[tuple[Extent, ...]]
    values: Sequence[Any | None]
    dims: Sequence[int] = ()

    def program(self) -> Program:
        """It, lowered. Raises LoweringError, and NeedsNumber for symbols where numbers are needed."""
        return lower(self.cluster, self.shapes, self.values, self.dims)

    def scopes(self) -> dict[str, int]:
        """How many ops stand in which outermost name scope (a model's or an optimizer's name), most first."""
        paths = [n.name.removeprefix("gradient_tape/").split("/") for n in self.cluster.nodes]
        count = Counter(path[0] for path in paths if len(path) > 1)
        return dict(sorted(count.items(), key=lambda item: (-item[1], item[0]))[:MOST_SCOPES])

    def sections(self) -> dict[str, bytes]:
        """As sections of an entry."""
        graph = {
            "inputs": [a.name for a in self.cluster.inputs],
            "ops": [[n.op, n.name, n.inputs] for n in self.cluster.nodes],
            "outputs": self.cluster.outputs,
            "shapes": [[pack_extent(n) for n in shape] for shape in self.shapes],
            "values": [None if v is None else _pack_value(v) for v in self.values],
            "dims": list(self.dims),
        }
        return {"graph": aside.put(json.dumps(graph, separators=(",", ":")).encode()), "cluster": aside.put(self.data)}

    @classmethod
    def of(cls, sections: Mapping[str, bytes]) -> Source:
        """From what `sections` gave; needs TensorFlow. Raises KeyError or ValueError for other sections."""
        graph = json.loads(aside.take(sections["graph"]))
        shapes = [tuple(unpack_extent(n) for n in shape) for shape in graph["shapes"]]
        values = [None if v is None else _unpack_value(v) for v in graph["values"]]
        data = aside.take(sections["cluster"])
        return cls(data, parse(data), shapes, values, graph["dims"])


def _pack_value(value: Any) -> dict[str, Any]:
    """A NumPy array as JSON data: its bytes, or the extents in an array of objects."""
    if value.dtype == object:
        return {"shape": value.shape, "extents": [pack_extent(n) for n in value.reshape(-1).tolist()]}
    return {"shape": value.shape, "dtype": value.dtype.name, "hex": value.tobytes().hex()}


def _unpack_value(data: dict[str, Any]) -> Any:
    import numpy as np

    if "extents" in data:
        out = np.empty(len(data["extents"]), object)
        out[:] = [unpack_extent(n) for n in data["extents"]]
        return out.reshape(data["shape"])
    dtype = from_label(data["dtype"]).numpy
    return np.frombuffer(bytes.fromhex(data["hex"]), dtype).reshape(data["shape"])
