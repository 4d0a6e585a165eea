"""A recipe: what a cluster compiles to for given shapes, and how it becomes a program of the runtime.

A recipe is plain data: machine code, the list of kernel calls, the buffers they work on. Extents in it may be symbolic;
`bind` puts in numbers, plans the workspace and hands the program to the runtime. `packed_recipe` has its form in the
recipe cache.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from habana_tf import settings
from habana_tf.compiler.codegen.machine import Loaded
from habana_tf.compiler.codegen.objects import split
from habana_tf.compiler.memory_plan import Lifetime, place
from habana_tf.ir import extent as ext
from habana_tf.ir import libraries
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, IndexCheck

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program, RecipeData


class Kind(IntEnum):
    """Where a buffer lies; the numbers are the runtime's. CUSTOM is what a kernel in C is called with (the number is
    that in `Recipe.customs`), ERRORS where it reports."""

    INPUT = 0
    OUTPUT = 1
    WORKSPACE = 2
    CONSTANT = 3
    STATE = 4
    WINDOW = 5
    CUSTOM = 6
    ERRORS = 7


@dataclass(frozen=True)
class Buffer:
    """index: number of the input, output or state; byte offset of a constant; of a window the buffer it is a part of.
    first/last: calls it lives through."""

    kind: Kind
    index: int
    nbytes: Extent
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class KernelCall:
    """One kernel call: a function of the machine code, its buffers (numbers), work items and grain; and the constants
    that it finds where others find the values of the symbols. A call without a function is one of a kernel in C, whose
    first buffers are CUSTOM and ERRORS."""

    function: str
    buffers: tuple[int, ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoopCalls:
    """`calls` calls from `first` on that are made `trips` times, in each of its `blocks`. Loops within it stand behind
    it.

    windows: (buffer, start, step, block): a part of another buffer, at `start` + t * `step` + k * `block` bytes in
    iteration t of block k. carried: (now, next, from, to): a value is read from `now` and left in `next`, which then
    change places; it begins as `from` and ends in `to`, if that is not -1.
    """

    first: int
    calls: int
    trips: int
    windows: tuple[tuple[int, Extent, Extent, Extent], ...] = ()
    carried: tuple[tuple[int, int, int, int], ...] = ()
    blocks: int = 1


@dataclass(frozen=True)
class CustomCall:
    """What a kernel in C is called with. inputs: element type and shape of each."""

    spec: Custom
    inputs: tuple[tuple[DType, tuple[int, ...]], ...]


@dataclass(frozen=True)
class CheckedIndices:
    """The number of the buffer that holds the largest of some indices when all calls are made, and its type."""

    buffer: int
    dtype: DType
    check: IndexCheck


@dataclass
class Recipe:
    """See the module's docstring. `kernels` has a row per kernel for people (see `describe`); its `launches` are
    the number of its first kernel call and how many it has; `described` is the same, compressed, and stays when those
    are dropped. `copies`: (call, input, output) of calls that only copy an input that no later call reads to an
    output; an output that takes over its input's memory is spared it. `in_place`: (input, output) of variables whose
    new value may be written over the old one. It serves sizes for which all `conditions` are at least 0. `loaded` and
    `data` are what its programs share, made for the first of them; `code` and `constants` are empty from then on.
    `stored`: it was read from a file, and may be anything that reads as a recipe."""

    name: str
    calls: list[KernelCall]
    buffers: list[Buffer]
    outputs: list[tuple[DType, tuple[Extent, ...]]]
    states: list[Extent]
    constants: bytes
    code: bytes
    kernels: list[dict[str, Any]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    in_place: list[tuple[int, int]] = field(default_factory=list)
    loaded: Loaded | None = None
    data: RecipeData | None = None
    conditions: tuple[ext.Expr, ...] = ()
    loops: list[LoopCalls] = field(default_factory=list)
    customs: list[CustomCall] = field(default_factory=list)
    checks: list[CheckedIndices] = field(default_factory=list)
    described: bytes = b""
    stored: bool = False
    _planned: tuple[list[int], tuple[dict[int, int], int, int]] | None = None

    def workspace(self, dims: Sequence[int] = ()) -> tuple[dict[int, int], int, int]:
        """Offsets of the workspace buffers by number, the workspace's size, and the most bytes alive at once.

        Who binds a recipe asks for the same numbers twice, so the last answer is kept."""
        if (last := self._planned) is not None and last[0] == [*dims]:
            return last[1]
        numbers = [k for k, b in enumerate(self.buffers) if b.kind is Kind.WORKSPACE]
        values = [
            Lifetime(ext.evaluate(self.buffers[k].nbytes, list(dims)), self.buffers[k].first, self.buffers[k].last)
            for k in numbers
        ]
        placed = place(values)
        found = dict(zip(numbers, placed.offsets, strict=True)), placed.total, placed.peak
        self._planned = [*dims], found
        return found


class TooLarge(Exception):
    """A launch needs more bytes than an integer of the runtime holds; the message says what for."""

    tf_code = 8
    """TensorFlow's RESOURCE_EXHAUSTED."""


_linking = threading.Lock()


def bind(
    recipe: Recipe, dims: Sequence[int], shapes: Sequence[tuple[int, ...]] | None, target: Any,
    ops: Sequence[str] = (),
) -> Program:  # fmt: skip
    """The runtime's program for a recipe with its symbolic extents set to `dims`; the one that is alive, if there is.

    shapes: the outputs' shapes where they differ from the recipe's own (a generic recipe works on collapsed axes).
    ops: what messages call the ops of the cluster. Raises TooLarge for sizes that no memory holds.
    """
    from habana_tf._native import _bridge

    numbers = list(dims)
    checked = bool(recipe.customs) and settings.HABANA_SIM_CHECK_KERNELS.get()
    checks = _bound_checks(recipe, numbers, ops)
    fatal = bool(checks) and settings.HABANA_SIM_CHECK_INDICES.get() == "error"
    bound_to = [*numbers, *(n for shape in shapes or () for n in (-len(shape), *shape))]
    if checks:  # programs that say something else are others
        bound_to += [fatal, zlib.crc32("\0".join(what for *_, what in checks).encode())]
    with _linking:  # linked twice, the first code would be unmapped under the program that has its addresses
        if recipe.data is None:
            functions = {call.function for call in recipe.calls if call.function}
            if recipe.loaded is None and functions:
                recipe.loaded = Loaded(split(recipe.code), functions, target)
            recipe.data = _bridge.RecipeData(recipe.constants, recipe.loaded)
            recipe.code = recipe.constants = b""  # both are copies of these
    if (alive := recipe.data.find(bound_to)) is not None:
        return alive
    offsets, total, _ = recipe.workspace(numbers)
    own = [tuple(ext.evaluate(n, numbers) for n in shape) for _, shape in recipe.outputs]
    outputs = [(d.tf_enum, list(s)) for (d, _), s in zip(recipe.outputs, shapes or own, strict=True)]
    sizes = [math.prod(s) * d.bytes for (d, _), s in zip(recipe.outputs, shapes or own, strict=True)]
    for what, nbytes in [*((f"output {k}", n) for k, n in enumerate(sizes)), ("the workspace", total)]:
        if nbytes > ext.LARGEST:
            raise TooLarge(f"HPU:0 is out of memory: {what} of launch {recipe.name!r} asks for {nbytes} bytes")
    calls = []
    for call in recipe.calls:
        grid = ext.evaluate(call.grid, numbers)
        address = recipe.loaded.address(call.function) if recipe.loaded is not None and call.function else 0
        grain = max(call.grain, grid) if checked and not call.function else call.grain
        calls.append((address, list(call.buffers), list(call.constants) or numbers, grid, grain))
    buffers = []
    for k, b in enumerate(recipe.buffers):
        nbytes = ext.evaluate(b.nbytes, numbers)
        if b.kind is Kind.WORKSPACE:
            buffers.append((int(b.kind), 0, offsets[k], nbytes))
        elif b.kind is Kind.CONSTANT:
            buffers.append((int(b.kind), 0, b.index, nbytes))
        else:
            buffers.append((int(b.kind), b.index, 0, nbytes))
    loops = []
    for x in recipe.loops:
        windows = [
            (k, ext.evaluate(start, numbers), ext.evaluate(step, numbers), ext.evaluate(block, numbers))
            for k, start, step, block in x.windows
        ]
        loops.append((x.first, x.calls, x.trips, windows, list(x.carried), x.blocks))
    states = [(i, ext.evaluate(n, numbers)) for i, n in enumerate(recipe.states) if n != 0]
    return _bridge.make_program(
        recipe.name, calls, buffers, outputs, total, states, recipe.copies, recipe.data, bound_to, loops,
        [(*_custom(call), checked) for call in recipe.customs], recipe.in_place, checks, fatal,
    )  # fmt: skip


def _bound_checks(recipe: Recipe, numbers: list[int], ops: Sequence[str]) -> list[tuple[int, bool, int, str]]:
    """(buffer, whether its type has a sign, bound, what the index is) of the checks, where there are indices."""
    found = []
    for x in recipe.checks:
        if ext.evaluate(x.check.count, numbers):
            op = ops[x.check.origin] if ops else f"op {x.check.origin}"
            bound = ext.evaluate(x.check.bound, numbers)
            found.append((x.buffer, x.dtype.kind == "i", bound, f"{op}: {x.check.argument}"))
    return found


def _custom(call: CustomCall) -> tuple[object, ...]:
    """As the runtime takes it. Raises LibraryError where its library is not loaded."""
    spec = call.spec
    attrs = []
    for name, kind, values in spec.attrs:
        ints, floats = [list(values) if kind == each else [] for each in ("int", "float")]
        attrs.append((name, ints, floats, values[0] if kind == "text" else "", kind))
    tensors = ([(d.tf_enum, list(s)) for d, s in each] for each in (call.inputs, spec.outputs))
    return libraries.find(spec).run, spec.op, libraries.path_of(spec), *tensors, attrs, spec.items, spec.workspace
