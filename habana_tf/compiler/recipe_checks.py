"""Validates a stored recipe before it runs: its plan must be consistent with itself and with the cluster.

A digest detects corruption, not a wrong recipe. Machine code cannot be verified, but the plan can: buffers have the
sizes of their tensors, outputs are written, calls name existing functions, live buffers and no more work items than
their buffers have bytes, and loops end. Symbolic sizes are checked again as numbers when the recipe is bound
(`Program::Validate` in kernels/runtime/program_checks.cc).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from habana_tf.compiler.code_checks import functions
from habana_tf.compiler.codegen.objects import split
from habana_tf.compiler.recipe import Kind, LoopCalls, Recipe
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent

_LIVE = (Kind.INPUT, Kind.OUTPUT, Kind.WORKSPACE)
"""Kinds of buffers with live ranges."""

_MOST_ITEMS = 1 << 40
"""The most work items of a call: each writes a byte at least, and no card has a terabyte."""

Tensor = tuple[DType, Sequence[Extent] | None]
"""An element type, and a shape if it is known."""


class RecipeError(ValueError):
    """A recipe that is inconsistent with its cluster or with itself."""


def check(recipe: Recipe, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Raises RecipeError for a recipe that cannot be of a cluster with these inputs and outputs."""
    for wrong in _wrong(recipe, inputs, outputs):
        raise RecipeError(wrong)


def _wrong(recipe: Recipe, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Iterator[str]:
    if [d for d, _ in recipe.outputs] != [d for d, _ in outputs]:
        yield f"it gives {[str(d) for d, _ in recipe.outputs]}, and its cluster {[str(d) for d, _ in outputs]}"
    for k, ((_, have), (_, want)) in enumerate(zip(recipe.outputs, outputs, strict=True)):
        if want is not None and tuple(have) != tuple(want):
            yield f"output {k} has the shape {list(have)}, and not {list(want)}"
    yield from _wrong_buffers(recipe, inputs)
    yield from _wrong_calls(recipe)
    for k, loop in enumerate(recipe.loops):
        if (wrong := _wrong_loop(recipe, loop)) is not None:
            yield f"loop {k} {wrong}"
    yield from _wrong_pairs(recipe, len(inputs))
    missing = {call.function for call in recipe.calls if call.function} - functions(split(recipe.code))
    if missing:
        yield f"its code has no function {sorted(missing)[0]!r}"


def _wrong_buffers(recipe: Recipe, inputs: Sequence[Tensor]) -> Iterator[str]:
    counts = {
        Kind.INPUT: len(inputs), Kind.OUTPUT: len(recipe.outputs), Kind.STATE: len(recipe.states),
        Kind.WINDOW: len(recipe.buffers), Kind.CUSTOM: len(recipe.customs),
    }  # fmt: skip
    for k, b in enumerate(recipe.buffers):
        if isinstance(b.nbytes, int) and not 0 <= b.nbytes <= ext.LARGEST:
            yield f"buffer {k} has {b.nbytes} bytes"
        if b.index < 0 or b.index >= counts.get(b.kind, ext.LARGEST):
            yield f"buffer {k} is {b.kind.name.lower()} {b.index}, which is not there"
        tensor = inputs[b.index] if b.kind is Kind.INPUT else recipe.outputs[b.index] if b.kind is Kind.OUTPUT else None
        if tensor is not None and tensor[1] is not None:
            bytes_of = ext.mul(ext.product(tensor[1]), tensor[0].bytes)
            if b.nbytes != bytes_of:
                yield f"buffer {k} has {b.nbytes} bytes, and its tensor {bytes_of}"
        if b.kind is Kind.CONSTANT and not (isinstance(b.nbytes, int) and b.index + b.nbytes <= len(recipe.constants)):
            yield f"buffer {k} reaches past the constants"
        if b.kind is Kind.WINDOW and recipe.buffers[b.index].kind is Kind.WINDOW and b.index >= k:
            yield f"buffer {k} is a part of itself"


def _wrong_calls(recipe: Recipe) -> Iterator[str]:
    for k, call in enumerate(recipe.calls):
        if any(not 0 <= b < len(recipe.buffers) for b in call.buffers):
            yield f"call {k} names a buffer that is not there"
        if call.grain < 1 or (isinstance(call.grid, int) and not 0 <= call.grid <= _MOST_ITEMS):
            yield f"call {k} has {call.grid} work items, {call.grain} at a time"
        sizes = [recipe.buffers[b].nbytes for b in call.buffers]
        known = [n for n in sizes if isinstance(n, int)]
        if call.function and isinstance(call.grid, int) and len(known) == len(sizes) and call.grid > max(1, sum(known)):
            yield f"call {k} has {call.grid} work items on {sum(known)} bytes"
        for b in map(functools.partial(_whole, recipe), call.buffers):
            first, last = recipe.buffers[b].first, recipe.buffers[b].last
            if recipe.buffers[b].kind in _LIVE and not first <= k <= last:
                yield f"call {k} works on buffer {b}, which is there from call {first} to {last}"
    touched = {_whole(recipe, b) for call in recipe.calls for b in call.buffers if 0 <= b < len(recipe.buffers)}
    touched.update(_whole(recipe, b) for loop in recipe.loops for *_, b in loop.carried if b >= 0)
    made = {recipe.buffers[b].index for b in touched if recipe.buffers[b].kind is Kind.OUTPUT}
    for k, (_, shape) in enumerate(recipe.outputs):
        if k not in made and 0 not in shape:
            yield f"output {k} is not written"


def _whole(recipe: Recipe, buffer: int) -> int:
    """The buffer that a buffer is a part of."""
    while recipe.buffers[buffer].kind is Kind.WINDOW:
        buffer = recipe.buffers[buffer].index
    return buffer


def _wrong_loop(recipe: Recipe, loop: LoopCalls) -> str | None:
    if loop.first < 0 or loop.calls < 0 or loop.first + loop.calls > len(recipe.calls):
        return "has calls that are not there"
    if isinstance(loop.trips, int) and not 0 <= loop.trips <= ext.LARGEST or not 1 <= loop.blocks <= ext.LARGEST:
        return f"has {loop.blocks} blocks of {loop.trips} iterations"
    count = len(recipe.buffers)
    for k, *_ in loop.windows:
        if not 0 <= k < count or recipe.buffers[k].kind is not Kind.WINDOW:
            return f"moves buffer {k}, which is no window"
    for now, then, source, target in loop.carried:
        if not (0 <= now < count and 0 <= then < count and 0 <= source < count and -1 <= target < count):
            return "carries what is not there"
    # Blocks that all use the same memory would only repeat work, endlessly if their number is huge.
    if loop.blocks > 1 and all(block == 0 for *_, block in loop.windows):
        return f"has {loop.blocks} blocks of the same memory"
    return None


def _wrong_pairs(recipe: Recipe, inputs: int) -> Iterator[str]:
    outputs, calls = len(recipe.outputs), len(recipe.calls)
    for call, source, target in recipe.copies:
        if not (0 <= call < calls and 0 <= source < inputs and 0 <= target < outputs):
            yield "a copy names a call, an input or an output that is not there"
            continue
        ends = [recipe.buffers[b] for b in recipe.calls[call].buffers]
        kinds = {(b.kind, b.index) for b in ends}
        if not {(Kind.INPUT, source), (Kind.OUTPUT, target)} <= kinds:
            yield f"call {call} does not copy input {source} to output {target}"
    for source, target in recipe.in_place:
        if not (0 <= source < inputs and 0 <= target < outputs):
            yield "an update names an input or an output that is not there"
