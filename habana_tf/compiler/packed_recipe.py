"""Serialization of recipes: a plan in JSON, machine code, constants, and descriptions of kernels for reports.

A seal, a digest over all parts and the program's digest, detects parts that do not belong together: `check`
(recipe_checks) finds inconsistent plans, but not the plan of another program of the same sizes. A seal is no protection
against forgery; signatures are (docs/recipe-cache.md).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from habana_tf.compiler import compressed
from habana_tf.compiler.recipe import Buffer, CheckedIndices, CustomCall, KernelCall, Kind, LoopCalls, Recipe
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, IndexCheck


def pack(recipe: Recipe) -> tuple[dict[str, Any], dict[str, bytes]]:
    """(header fields for reports, sections) for the recipe cache.

    The header, which listings read, has totals (`flops` is None for symbolic sizes); the section `kernels` (see
    `compressed`) has the rows. `launches` are kernel calls.
    """
    plan = {
        "launches": [
            [x.function, list(x.buffers), pack_extent(x.grid), x.grain, list(x.constants)] for x in recipe.calls
        ],
        "buffers": [[int(b.kind), b.index, pack_extent(b.nbytes), b.first, b.last] for b in recipe.buffers],
        "outputs": [[d.label, [pack_extent(n) for n in shape]] for d, shape in recipe.outputs],
        "states": [pack_extent(n) for n in recipe.states],
        "copies": recipe.copies,
        "in_place": recipe.in_place,
        "conditions": [pack_extent(n) for n in recipe.conditions],
        "loops": [
            [
                x.first, x.calls, pack_extent(x.trips),
                [[k, *map(pack_extent, places)] for k, *places in x.windows], x.carried, x.blocks,
            ]
            for x in recipe.loops
        ],
        "customs": [
            [x.spec.op, x.spec.library, x.spec.attrs, _pack_tensors(x.spec.outputs), x.spec.items, x.spec.workspace,
             _pack_tensors(x.inputs)]
            for x in recipe.customs
        ],
        "checks": [
            [x.buffer, x.dtype.label, x.check.origin, x.check.argument, pack_extent(x.check.bound),
             pack_extent(x.check.count), x.check.refused]
            for x in recipe.checks
        ],
    }  # fmt: skip
    flops = [row["flops"] for row in recipe.kernels]
    header: dict[str, Any] = {
        "kernels": {engine: sum(row["engine"] == engine for row in recipe.kernels) for engine in ("MME", "TPC")},
        "flops": sum(flops) if all(isinstance(n, int) for n in flops) else None,
    }
    sections = {
        "plan": json.dumps(plan, separators=(",", ":")).encode(),
        "kernels": recipe.described or describe_kernels(recipe),
        "constants": recipe.constants,
        "object": recipe.code,
    }
    return header, sections


def seal(program: str, sections: Mapping[str, bytes]) -> str:
    """The digest that ties a recipe's sections to each other and to a program, given by its digest."""
    own = hashlib.blake2b(program.encode(), digest_size=16)
    for name in ("plan", "constants", "object"):
        data = sections[name]
        # The plan controls memory accesses; the others are megabytes, and the entry has digests of them.
        own.update(f"\n{name} {len(data)} {zlib.crc32(data)}\n".encode())
        own.update(data if name == "plan" else b"")
    return own.hexdigest()


def describe_kernels(recipe: Recipe) -> bytes:
    """The section `kernels` of a recipe."""
    return compressed.put(json.dumps(recipe.kernels, separators=(",", ":")).encode())


def unpack(name: str, sections: Mapping[str, bytes]) -> Recipe:
    """The recipe of `pack`; its `kernels` stay compressed, in `described`."""
    plan = json.loads(sections["plan"])
    return Recipe(
        name,
        [KernelCall(f, tuple(b), unpack_extent(g), n, tuple(c)) for f, b, g, n, c in plan["launches"]],
        [Buffer(Kind(k), i, unpack_extent(n), a, z) for k, i, n, a, z in plan["buffers"]],
        [(from_label(d), tuple(unpack_extent(n) for n in shape)) for d, shape in plan["outputs"]],
        [unpack_extent(n) for n in plan["states"]],
        sections["constants"],
        sections["object"],
        copies=[(call, source, target) for call, source, target in plan["copies"]],
        in_place=[(source, target) for source, target in plan["in_place"]],
        conditions=tuple(n for n in map(unpack_extent, plan["conditions"]) if isinstance(n, ext.Expr)),
        loops=[
            LoopCalls(
                first, calls, unpack_extent(trips),
                tuple((k, unpack_extent(a), unpack_extent(b), unpack_extent(c)) for k, a, b, c in windows),
                tuple((now, then, source, target) for now, then, source, target in carried), blocks,
            )
            for first, calls, trips, windows, carried, blocks in plan["loops"]
        ],
        customs=[
            CustomCall(
                Custom(
                    op, library, tuple((name, kind, tuple(values)) for name, kind, values in attrs),
                    _unpack_tensors(outputs), items, workspace,
                ),
                _unpack_tensors(inputs),
            )
            for op, library, attrs, outputs, items, workspace, inputs in plan["customs"]
        ],
        checks=[
            CheckedIndices(
                buffer,
                from_label(d),
                IndexCheck(origin, argument, unpack_extent(bound), unpack_extent(count), refused),
            )
            for buffer, d, origin, argument, bound, count, refused in plan["checks"]
        ],
        described=sections.get("kernels", b""),
        stored=True,
    )  # fmt: skip


def _pack_tensors(tensors: Sequence[tuple[DType, tuple[int, ...]]]) -> list[list[Any]]:
    return [[dtype.label, list(shape)] for dtype, shape in tensors]


def _unpack_tensors(data: Sequence[Sequence[Any]]) -> tuple[tuple[DType, tuple[int, ...]], ...]:
    return tuple((from_label(label), tuple(shape)) for label, shape in data)


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
