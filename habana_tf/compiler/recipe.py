"""A recipe: what a cluster compiles to for given shapes, and how it becomes a program of the runtime.

A recipe is plain data: machine code, the list of calls, the buffers they work on. Extents in it may be symbolic;
`bind` puts in numbers, plans the workspace and hands the program to the runtime. `pack`/`unpack` are its form in
the recipe cache.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from . import aside
from . import extent as ext
from .codegen.machine import Loaded
from .codegen.objects import split
from .dtypes import DType, from_label
from .extent import Extent
from .plan import Lifetime, place


class Kind(IntEnum):
    """Where a buffer lies; the numbers are the runtime's."""

    INPUT = 0
    OUTPUT = 1
    WORKSPACE = 2
    CONSTANT = 3
    STATE = 4


@dataclass(frozen=True)
class Buffer:
    """index: number of the input, output or state; byte offset of a constant. first/last: calls it lives through."""

    kind: Kind
    index: int
    nbytes: Extent
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel call: a function of the machine code, its buffers (numbers), work items and grain; and the constants
    that it finds where others find the values of the symbols."""

    function: str
    buffers: tuple[int, ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()


@dataclass
class Recipe:
    """See the module's docstring. `kernels` has a row per kernel for people (see `describe`); its `launches` are
    the number of its first launch and how many it has. `copies`: (launch, input, output) of those that do nothing but
    copy an input that nobody else reads to an output; an output that takes over its input's memory is spared it. It
    serves sizes for which all `conditions` are at least 0."""

    name: str
    launches: list[Launch]
    buffers: list[Buffer]
    outputs: list[tuple[DType, tuple[Extent, ...]]]
    states: list[Extent]
    constants: bytes
    code: bytes
    kernels: list[dict[str, Any]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    loaded: Loaded | None = None
    conditions: tuple[ext.Expr, ...] = ()

    def workspace(self, dims: Sequence[int] = ()) -> tuple[dict[int, int], int, int]:
        """Offsets of the workspace buffers by number, the workspace's size, and the most bytes alive at once."""
        numbers = [k for k, b in enumerate(self.buffers) if b.kind is Kind.WORKSPACE]
        values = [
            Lifetime(ext.evaluate(self.buffers[k].nbytes, list(dims)), self.buffers[k].first, self.buffers[k].last)
            for k in numbers
        ]
        placed = place(values)
        return dict(zip(numbers, placed.offsets, strict=True)), placed.total, placed.peak


_linking = threading.Lock()


def bind(recipe: Recipe, dims: Sequence[int], shapes: Sequence[tuple[int, ...]] | None, target: Any) -> int:
    """The runtime's program handle for a recipe with its symbolic extents set to `dims`.

    shapes: the outputs' shapes where they differ from the recipe's own (a generic recipe works on collapsed axes).
    """
    from habana_tf._native import _bridge

    numbers = list(dims)
    offsets, total, _ = recipe.workspace(numbers)
    with _linking:  # linked twice, the first code would be unmapped under the program that has its addresses
        if recipe.loaded is None and recipe.launches:
            recipe.loaded = Loaded(split(recipe.code), {launch.function for launch in recipe.launches}, target)
    calls = []
    for launch in recipe.launches:
        grid = ext.evaluate(launch.grid, numbers)
        assert recipe.loaded is not None
        address = recipe.loaded.address(launch.function)
        calls.append((address, list(launch.buffers), list(launch.constants) or numbers, grid, launch.grain))
    buffers = []
    for k, b in enumerate(recipe.buffers):
        nbytes = ext.evaluate(b.nbytes, numbers)
        if b.kind is Kind.WORKSPACE:
            buffers.append((int(b.kind), 0, offsets[k], nbytes))
        elif b.kind is Kind.CONSTANT:
            buffers.append((int(b.kind), 0, b.index, nbytes))
        else:
            buffers.append((int(b.kind), b.index, 0, nbytes))
    own = [tuple(ext.evaluate(n, numbers) for n in shape) for _, shape in recipe.outputs]
    outputs = [(d.tf_enum, list(s)) for (d, _), s in zip(recipe.outputs, shapes or own, strict=True)]
    states = [(i, ext.evaluate(n, numbers)) for i, n in enumerate(recipe.states) if n != 0]
    handle: int = _bridge.make_program(
        recipe.name, calls, buffers, outputs, workspace=total, constants=recipe.constants, states=states,
        keepalive=recipe, copies=recipe.copies,
    )  # fmt: skip
    return handle


def pack(recipe: Recipe) -> tuple[dict[str, Any], dict[str, bytes]]:
    """(header fields for people and tools, sections) for the recipe cache.

    The header is read for every line of a listing, so it has sums (`flops` is None over symbolic extents), and the
    section `kernels` (see `aside`) the rows.
    """
    plan = {
        "launches": [
            [x.function, list(x.buffers), pack_extent(x.grid), x.grain, list(x.constants)] for x in recipe.launches
        ],
        "buffers": [[int(b.kind), b.index, pack_extent(b.nbytes), b.first, b.last] for b in recipe.buffers],
        "outputs": [[d.label, [pack_extent(n) for n in shape]] for d, shape in recipe.outputs],
        "states": [pack_extent(n) for n in recipe.states],
        "copies": recipe.copies,
        "conditions": [pack_extent(n) for n in recipe.conditions],
    }
    flops = [row["flops"] for row in recipe.kernels]
    header: dict[str, Any] = {
        "kernels": {engine: sum(row["engine"] == engine for row in recipe.kernels) for engine in ("MME", "TPC")},
        "flops": sum(flops) if all(isinstance(n, int) for n in flops) else None,
    }
    sections = {
        "plan": json.dumps(plan, separators=(",", ":")).encode(),
        "kernels": aside.put(json.dumps(recipe.kernels, separators=(",", ":")).encode()),
        "constants": recipe.constants,
        "object": recipe.code,
    }
    return header, sections


def unpack(name: str, sections: Mapping[str, bytes]) -> Recipe:
    """The recipe that `pack` made, without `kernels`: only people ask for those."""
    plan = json.loads(sections["plan"])
    return Recipe(
        name,
        [Launch(f, tuple(b), unpack_extent(g), n, tuple(c)) for f, b, g, n, c in plan["launches"]],
        [Buffer(Kind(k), i, unpack_extent(n), a, z) for k, i, n, a, z in plan["buffers"]],
        [(from_label(d), tuple(unpack_extent(n) for n in shape)) for d, shape in plan["outputs"]],
        [unpack_extent(n) for n in plan["states"]],
        sections["constants"],
        sections["object"],
        copies=[(launch, source, target) for launch, source, target in plan["copies"]],
        conditions=tuple(n for n in map(unpack_extent, plan["conditions"]) if isinstance(n, ext.Expr)),
    )


def pack_extent(e: Extent) -> Any:
    """An int as itself; an expression as {"c": const, "t": [[atom, coefficient], ...]}."""
    return e if isinstance(e, int) else {"c": e.const, "t": [[_pack_atom(a), c] for a, c in e.terms]}


def _pack_atom(atom: ext.Atom) -> Any:
    match atom:
        case ext.Sym(index=index):
            return index
        case ext.Prod(factors=factors):
            return ["*", *map(_pack_atom, factors)]
        case ext.Div(value=value, by=by):
            return ["/", pack_extent(value), by]
        case ext.Mod(value=value, by=by):
            return ["%", pack_extent(value), by]
    raise AssertionError(f"{atom} in a recipe")


def unpack_extent(data: Any) -> Extent:
    """The extent that `pack_extent` packed."""
    if isinstance(data, int):
        return data
    out: Extent = data["c"]
    for atom, c in data["t"]:
        out = ext.add(out, ext.mul(_unpack_atom(atom), c))
    return out


def _unpack_atom(data: Any) -> Extent:
    if isinstance(data, int):
        return ext.sym(data)
    if data[0] == "*":
        return ext.product(_unpack_atom(f) for f in data[1:])
    value = unpack_extent(data[1])
    return ext.div(value, data[2]) if data[0] == "/" else ext.mod(value, data[2])
