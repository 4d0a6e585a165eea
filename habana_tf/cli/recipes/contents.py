"""Reads a recipe's sections for `show` and `report`: its ops, its kernels, its memory plan.

An entry without such a section (a note of a failure, or one made by another compiler) gives empty lists.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.cli.output import CommandError

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.cluster.cluster import Cluster


@dataclass(frozen=True)
class ClusterOp:
    """An op of the cluster. inputs: (op's index or -1 for the cluster's inputs, output). kernels: those that compute
    it, by number."""

    type: str
    name: str
    inputs: tuple[tuple[int, int], ...]
    kernels: tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """A buffer of the workspace: bytes from `offset` on, alive from kernel call `first` to `last`, both included."""

    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """The workspace of a launch. launches: how many kernel calls it has, as JSON names them; peak: most bytes alive."""

    launches: int
    blocks: tuple[Block, ...]
    total: int
    peak: int

    def alive(self) -> list[int]:
        from habana_tf.ir.lifetimes import in_use

        return in_use(self.launches, ((b.first, b.last, b.nbytes) for b in self.blocks))


def kernels(entry: Entry) -> list[dict[str, Any]]:
    """The rows of `compiler.describe`, in call order, each with `at_least_seconds`: what `hardware.roofline` says of
    it on the chip that HABANA_SIM_CHIP names, None where it says nothing."""
    from habana_tf.hardware.chips import chip
    from habana_tf.hardware.roofline import at_least

    of = chip()
    rows = _section(entry, "kernels") or []
    return [{**row, "at_least_seconds": at_least(of, row["engine"], row["flops"], row["bytes"])} for row in rows]


def graph(entry: Entry) -> dict[str, Any]:
    """The cluster as `resolver.provenance` describes it for tools without TensorFlow."""
    return _section(entry, "graph") or {"inputs": [], "ops": [], "outputs": []}


def ops(entry: Entry) -> list[ClusterOp]:
    """The cluster's ops in their order."""
    makers: dict[int, list[int]] = {}
    for number, kernel in enumerate(kernels(entry)):
        for index in kernel["ops"]:
            makers.setdefault(index, []).append(number)
    return [
        ClusterOp(type_, name, tuple((op, output) for op, output in inputs), tuple(makers.get(k, ())))
        for k, (type_, name, inputs) in enumerate(graph(entry)["ops"])
    ]


def cluster_reader(entry: Entry) -> Callable[[bytes], Cluster]:
    """What makes a cluster of an entry's section. Raises ImportError where that takes TensorFlow and it is missing; a
    cluster of PyTorch's takes nothing."""
    if entry.header.get("framework") == "PyTorch":
        from habana_tf.torch.record.program import TorchCluster

        return TorchCluster.read
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # its start would stand between the lines of the answer
    importlib.import_module("tensorflow")
    from habana_tf.tensorflow.clusters.cluster import parse

    return parse


def _section(entry: Entry, section: str) -> Any:
    """The JSON data in a section; None for an entry without it."""
    from habana_tf.compiler import compressed

    if section not in entry.sections:
        return None
    try:
        return json.loads(compressed.take(entry.sections[section]))
    except ValueError as error:
        raise CommandError(f"{entry.name}: section {section!r}: {error}", 1) from error


def edges(entry: Entry) -> list[tuple[int, int]]:
    """(writer, reader): kernels, by number, where the second one works on a buffer that the first one was first to
    touch, in the workspace or an output."""
    from habana_tf.compiler.packed_recipe import unpack
    from habana_tf.compiler.recipe import Kind

    if "plan" not in entry.sections:
        return []
    recipe = unpack(entry.name, entry.sections)
    made = {Kind.WORKSPACE, Kind.OUTPUT}
    writer: dict[int, int] = {}
    found: dict[tuple[int, int], None] = {}
    for number, kernel in enumerate(kernels(entry)):
        first, count = kernel["launches"]
        for call in recipe.calls[first : first + count]:
            for buffer in call.buffers:
                if recipe.buffers[buffer].kind in made and writer.setdefault(buffer, number) != number:
                    found[writer[buffer], number] = None
    return list(found)


def symbols(entry: Entry) -> int:
    """How many sizes the recipe leaves open."""
    if "plan" not in entry.sections:
        return 0
    from habana_tf.compiler.packed_recipe import unpack
    from habana_tf.ir import extent

    buffers = unpack(entry.name, entry.sections).buffers
    return 1 + max((s.index for buffer in buffers for s in extent.symbols(buffer.nbytes)), default=-1)


def plan(entry: Entry, sizes: Sequence[int]) -> MemoryPlan | None:
    """The memory plan with the open sizes set; None for an entry without one.

    Raises CommandError when not as many sizes are given as are open.
    """
    if "plan" not in entry.sections:
        return None
    wanted = symbols(entry)
    if len(sizes) != wanted:
        raise CommandError(f"{entry.name} leaves {wanted} sizes open and {len(sizes)} were given: see --sizes", 2)
    from habana_tf.compiler.packed_recipe import unpack
    from habana_tf.ir import extent

    recipe = unpack(entry.name, entry.sections)
    offsets, total, peak = recipe.workspace(sizes)
    blocks = [
        Block(offset, extent.evaluate(buffer.nbytes, list(sizes)), buffer.first, buffer.last)
        for number, offset in offsets.items()
        for buffer in [recipe.buffers[number]]
    ]
    return MemoryPlan(len(recipe.calls), tuple(blocks), total, peak)
