"""Recipes, the compiler's output: machine code, kernel calls and buffers; and their binding to sizes.

Extents may be symbolic: `bind` evaluates them, plans the workspace and makes the runtime's program. `packed_recipe`
serializes recipes for the cache.
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
    """The memory of a buffer, with the runtime's numbers. CUSTOM: the arguments of a custom kernel (index: of
    `Recipe.customs`); ERRORS: its error message."""

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
    """A buffer of kernel calls. index: number of the input, output or state; byte offset of a constant; for a window
    the buffer that it is a part of. first, last: its live range in calls."""

    kind: Kind
    index: int
    nbytes: Extent
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class KernelCall:
    """A call of a function of the machine code: buffers by number, work items (grid), items per thread (grain), and
    constants passed instead of the symbols' values. Without a function it is a custom kernel, whose first buffers are
    CUSTOM and ERRORS."""

    function: str
    buffers: tuple[int, ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoopCalls:
    """A loop over `calls` calls from `first` on, `trips` times in each of its `blocks`. Inner loops follow it in the
    list.

    windows: (buffer, start, step, block): a part of another buffer, at `start` + t * `step` + k * `block` bytes in
    iteration t of block k. carried: (now, next, from, to): buffers of a value before and after an iteration, which are
    swapped then; its initial value is `from`, its final one goes to `to` unless that is -1.
    """

    first: int
    calls: int
    trips: Extent
    windows: tuple[tuple[int, Extent, Extent, Extent], ...] = ()
    carried: tuple[tuple[int, int, int, int], ...] = ()
    blocks: int = 1


@dataclass(frozen=True)
class CustomCall:
    """A call of a custom kernel in C. inputs: element type and shape of each."""

    spec: Custom
    inputs: tuple[tuple[DType, tuple[int, ...]], ...]


@dataclass(frozen=True)
class CheckedIndices:
    """A bounds check after the last call: the buffer with the largest index, and its type."""

    buffer: int
    dtype: DType
    check: IndexCheck


@dataclass
class Recipe:
    """A compiled program, see the module's docstring.

    kernels: a row per kernel for reports (see `describe`), whose `launches` are the number of its first kernel call and
    their count; described: the same, compressed. copies: (call, input, output) of calls that only copy an input, dead
    afterwards, to an output: elided if the output takes over the input's memory. in_place: (input, output) of variables
    that may be updated in place. conditions: at least 0 for the sizes it serves. loaded, data: shared by its programs
    and made for the first of them; `code` and `constants` are empty afterwards. stored: read from a file, thus
    untrusted.
    """

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
        """Offsets of the workspace buffers by number, the workspace's size, and the most live bytes. Caches the last
        answer."""
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
    """A launch needs more bytes than int64 holds; the message says what for."""

    status_code = 8
    """The status RESOURCE_EXHAUSTED."""


_linking = threading.Lock()


def bind(
    recipe: Recipe, dims: Sequence[int], shapes: Sequence[tuple[int, ...]] | None, target: Any,
    ops: Sequence[str] = (),
) -> Program:  # fmt: skip
    """The runtime's program for a recipe with the values `dims` of its symbols; an existing one is reused.

    shapes: the outputs' shapes if they differ from the recipe's (a generic recipe has collapsed axes). ops: the names
    of the cluster's ops for messages. Raises TooLarge for sizes that no memory holds.
    """
    from habana_tf._native import _bridge

    numbers = list(dims)
    checked = bool(recipe.customs) and settings.HABANA_SIM_CHECK_KERNELS.get()
    checks = _bound_checks(recipe, numbers, ops)
    bound_to = [*numbers, *(n for shape in shapes or () for n in (-len(shape), *shape))]
    if checks:  # other messages are another program
        bound_to.append(zlib.crc32("\0".join(f"{fails}{what}" for *_, fails, what in checks).encode()))
    data = _linked(recipe, target)
    if (alive := data.find(bound_to)) is not None:
        return alive
    offsets, total, _ = recipe.workspace(numbers)
    own = [tuple(ext.evaluate(n, numbers) for n in shape) for _, shape in recipe.outputs]
    outputs = [(d.number, list(s)) for (d, _), s in zip(recipe.outputs, shapes or own, strict=True)]
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
        loops.append((x.first, x.calls, ext.evaluate(x.trips, numbers), windows, list(x.carried), x.blocks))
    states = [(i, ext.evaluate(n, numbers)) for i, n in enumerate(recipe.states) if n != 0]
    return _bridge.make_program(
        recipe.name, calls, buffers, outputs, total, states, recipe.copies, data, bound_to, loops,
        [(*_custom(call), checked) for call in recipe.customs], recipe.in_place, checks,
    )  # fmt: skip


def _linked(recipe: Recipe, target: Any) -> RecipeData:
    """The loaded code and the constants of a recipe; they are loaded once."""
    from habana_tf._native import _bridge

    with _linking:  # linked twice, the first code would be unmapped while a program uses its addresses
        if recipe.data is None:
            functions = {call.function for call in recipe.calls if call.function}
            if recipe.loaded is None and functions:
                recipe.loaded = Loaded(split(recipe.code), functions, target)
            recipe.data = _bridge.RecipeData(recipe.constants, recipe.loaded)
            recipe.code = recipe.constants = b""  # both are copies of these
        return recipe.data


def _bound_checks(recipe: Recipe, numbers: list[int], ops: Sequence[str]) -> list[tuple[int, bool, int, bool, str]]:
    """(buffer, whether its type is signed, bound, whether it fails the launch, description) of the checks of at least
    one index."""
    found = []
    all_fail = bool(recipe.checks) and settings.HABANA_SIM_CHECK_INDICES.get() == "error"
    for x in recipe.checks:
        if ext.evaluate(x.check.count, numbers):
            op = ops[x.check.origin] if ops else f"op {x.check.origin}"
            bound = ext.evaluate(x.check.bound, numbers)
            fails = all_fail or x.check.refused
            found.append((x.buffer, x.dtype.kind == "i", bound, fails, f"{op}: {x.check.argument}"))
    return found


def _custom(call: CustomCall) -> tuple[object, ...]:
    """A custom call in the runtime's form. Raises LibraryError if its library is not loaded."""
    spec = call.spec
    attrs = []
    for name, kind, values in spec.attrs:
        ints, floats = [list(values) if kind == each else [] for each in ("int", "float")]
        attrs.append((name, ints, floats, values[0] if kind == "text" else "", kind))
    tensors = ([(d.number, list(s)) for d, s in each] for each in (call.inputs, spec.outputs))
    return libraries.find(spec).run, spec.op, libraries.path_of(spec), *tensors, attrs, spec.items, spec.workspace
