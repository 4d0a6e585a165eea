"""What a recipe was compiled from: a cluster, its input shapes and the values that fix shapes.

It is kept with the recipe, in two sections (see `compiler.compressed`), so that a tool can show the cluster, and lower
and compile it again:
    graph      JSON, to be read without a front end: {"inputs": [name, ...], "ops": [[op, name, [ref, ...]], ...],
               "outputs": [ref, ...], "shapes": [...], "values": [...], "dims": [...]};
               a ref is [op, output], op -1 the inputs
    cluster    the serialized cluster (`Cluster.data`)

Shapes and values may hold symbolic extents, as in a recipe for a range of sizes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from habana_tf import settings
from habana_tf.cluster.cluster import Cluster
from habana_tf.cluster.counts import Count
from habana_tf.cluster.lower import lower
from habana_tf.compiler import compressed
from habana_tf.compiler.copied_elements import copied
from habana_tf.compiler.generic_products import generic_product
from habana_tf.compiler.packed_recipe import pack_extent, unpack_extent
from habana_tf.compiler.symbolic_products import with_loop_nests
from habana_tf.hardware.cpu import Target
from habana_tf.ir.dtypes import from_label
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Program

MOST_SCOPES = 8


@dataclass(frozen=True)
class Provenance:
    """values: one per input; None for those that fix no shape. dims: values of the symbols in them, which decide what
    depends on the size (see `ir.conditions`)."""

    cluster: Cluster
    shapes: Sequence[tuple[Extent, ...]]
    values: Sequence[Any | None]
    dims: Sequence[int] = ()

    def program(self) -> Program:
        """It, lowered. Raises LoweringError, and NeedsNumber for symbols where numbers are needed."""
        checked = settings.HABANA_SIM_CHECK_INDICES.get() != "off"
        return lower(self.cluster, self.shapes, self.values, self.dims, checked)

    def compiled_program(self, goal: Target) -> Program:
        """What a recipe is compiled of: of an op by itself its sizes may be data, over a range of sizes products may be
        walked. Raises what `program` raises."""
        program = self.program()
        form = generic_product(program, goal) or copied(program) if len(self.cluster.nodes) == 1 else None
        return with_loop_nests(program, goal) if form is None else form.program

    def named(self) -> list[str]:
        """What a message calls each op of the cluster."""
        return [f"{n.op} {n.name!r}" if n.name != n.op else n.op for n in self.cluster.nodes]

    def described(self) -> list[list[object]]:
        """Element type and shape of each input, as they stand in a key."""
        return [[a.dtype.label, list(s)] for a, s in zip(self.cluster.inputs, self.shapes, strict=True)]

    def fixed_values(self) -> list[list[object]]:
        """(input, its value) of those that fix a shape, as they stand in a key."""
        return [[i, v.tobytes()] for i, v in enumerate(self.values) if v is not None]

    def scopes(self) -> dict[str, int]:
        """How many ops stand in which outermost name scope (a model's or an optimizer's name), most first."""
        names = [n.name.removeprefix("gradient_tape/") for n in self.cluster.nodes]
        paths = [name.removeprefix("backward/").removeprefix("update/").split("/") for name in names]
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
        return {
            "graph": compressed.put(json.dumps(graph, separators=(",", ":")).encode()),
            "cluster": compressed.put(self.cluster.data),
        }

    @classmethod
    def of(cls, sections: Mapping[str, bytes], read: Callable[[bytes], Cluster]) -> Provenance:
        """From what `sections` gave. read: `Cluster.read` of the front end. Raises KeyError or ValueError for other
        sections."""
        graph = json.loads(compressed.take(sections["graph"]))
        shapes = [tuple(unpack_extent(n) for n in shape) for shape in graph["shapes"]]
        values = [None if v is None else _unpack_value(v) for v in graph["values"]]
        return cls(read(compressed.take(sections["cluster"])), shapes, values, graph["dims"])


def _pack_value(value: Any) -> dict[str, Any]:
    """A NumPy array as JSON data: its bytes, or the extents in an array of objects."""
    counted = {"counted": True} if isinstance(value, Count) else {}
    if value.dtype == object:
        return {**counted, "shape": value.shape, "extents": [pack_extent(n) for n in value.reshape(-1).tolist()]}
    return {**counted, "shape": value.shape, "dtype": value.dtype.name, "hex": value.tobytes().hex()}


def _unpack_value(data: dict[str, Any]) -> Any:
    import numpy as np

    if "extents" in data:
        out = np.empty(len(data["extents"]), object)
        out[:] = [unpack_extent(n) for n in data["extents"]]
        out = out.reshape(data["shape"])
        return out.view(Count) if data.get("counted") else out
    dtype = from_label(data["dtype"]).numpy
    value = np.frombuffer(bytes.fromhex(data["hex"]), dtype).reshape(data["shape"])
    return value.view(Count) if data.get("counted") else value
