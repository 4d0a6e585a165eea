"""A node of the tree of recordings: one op in its place, with all that recording it again takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import torch

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir.builder import Builder, ShapeError
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.torch import scopes, views
from habana_tf.torch.cluster import Argument, RecordedOp, Recording, Result, Target, op_of
from habana_tf.torch.element_types import COMPUTED, DLPACK, PRIMITIVE
from habana_tf.torch.ops.row import Row
from habana_tf.torch.storage import Memory

MOST_NUMBERS = 1 << 14
"""Numbers of one recording that are read at run time."""
_FLOATS, _INTEGERS = 1 << 30, (1 << 30) + 1
"""Inputs that stand for the vectors of numbers in a rehearsal."""
WHOLE = "whole"
"""Stands in an entry in the place of contents that are not read."""
Operand = Any
"""A tensor in an entry: the contents of its storage, alone or with its shape, strides and offset."""
Where = int | str
"""An argument: by its position, or by its name."""


class Number(NamedTuple):
    """A number that is read at run time, in an entry. kind: float or integer; place: in the vector of these. dtype: of
    the tensor of the CPU that it came in, None of one of Python's."""

    kind: str
    place: int
    dtype: torch.dtype | None = None


class Drawn(int):
    """A number that is another one at each run of what was recorded. again: gives the next."""

    again: Callable[[], int]

    @classmethod
    def of(cls, value: int, again: Callable[[], int]) -> Drawn:
        """value: of the first run."""
        made = cls(value)
        made.again = again
        return made


class NotRecorded(Exception):
    """A call that no program can have; it has CPU kernels. The message says why."""


@dataclass(frozen=True)
class Kernel:
    """An overload with its row. stock: the one that other devices have. runtime: positions of arguments that are read
    at run time. names: of all arguments; writes: of those that it writes; returns: for each result the argument that it
    is, None for a new one."""

    row: Row
    overload: Any
    stock: Any
    runtime: frozenset[int]
    names: tuple[str, ...]
    writes: tuple[str, ...]
    returns: tuple[str | None, ...]

    @classmethod
    def of(cls, row: Row) -> Kernel:
        """The kernel of a row. Raises AttributeError for an overload that this PyTorch has not."""
        overload = _overload(row.name)
        schema = overload._schema
        names = tuple(a.name for a in schema.arguments)
        writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        returns = tuple(
            next((a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
                  and a.alias_info.before_set == r.alias_info.before_set), None) if r.alias_info is not None else None
            for r in schema.returns
        )  # fmt: skip
        runtime = frozenset(k for k, name in enumerate(names) if name in row.runtime)
        stock = _overload(row.stock) if row.stock else overload
        return cls(row, overload, stock, runtime, names, (*writes, *row.writes), returns)

    def on_others(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """A call's arguments as `stock` takes them."""
        return (args, kwargs) if self.row.given is None else (self.row.given(*args, **kwargs), {})

    def where(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Where | None:
        """Where a call has an argument; None where it has none or None."""
        at = self.names.index(name)
        if at < len(args):
            return at if args[at] is not None else None
        return name if kwargs.get(name) is not None else None


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


@dataclass(eq=False)
class Step:
    """index: which op of its recording it is. then: what may follow, by entry. launches: programs that end here, by the
    contents that they give and the inputs that these replace.

    record: the op as data; new: inputs that it is the first to read, and numbers that it reads. refused: why no program
    can have it; empty where one can. fresh: of each new result what `Memory.tensor` takes. written, returned: the
    arguments that it writes, and gives back. single: whether it returns one value and not a tuple. scope: see `scopes`.
    """

    index: int
    before: Step | None = None
    record: RecordedOp | None = None
    new: tuple[tuple[tuple[int, ...], str], ...] = ()
    numbers: tuple[int, int] = (0, 0)
    refused: str = ""
    fresh: tuple[Any, ...] = ()
    written: tuple[Where, ...] = ()
    returned: tuple[Where, ...] = ()
    single: bool = True
    scope: str = ""
    then: dict[Any, Step] = field(default_factory=dict)
    launches: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: Step, kernel: Kernel, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any],
        memory: Memory,
    ) -> Step:  # fmt: skip
        """The step of a call after another. Raises what PyTorch raises for wrong arguments."""
        step = cls(before.index + 1, before, scope=scopes.now())
        try:
            _Filling(step, kernel, entry, args, kwargs, memory).fill()
        except NotRecorded as why:
            step.refused = str(why)
        except (LoweringError, ShapeError) as why:
            step.refused = str(why)
        return step

    def path(self) -> Iterator[Step]:
        """The steps from the first one to this."""
        found = []
        step: Step | None = self
        while step is not None and step.record is not None:
            found.append(step)
            step = step.before
        yield from reversed(found)

    def recording(self, wanted: Sequence[tuple[tuple[int, int], int]]) -> Recording:
        """The recording that ends here. wanted: (contents, the input that they replace or -1)."""
        path = list(self.path())
        ops = [s.record for s in path if s.record is not None]
        inputs = tuple(item for s in path for item in s.new)
        floats, integers = (sum(s.numbers[k] for s in path) for k in (0, 1))
        outputs = tuple(value for value, _ in wanted)
        updates = tuple(update for _, update in wanted)
        return Recording(inputs, floats, integers, tuple(ops), outputs, updates, tuple(s.scope for s in path))


class _Filling:
    """Finds what there is to know of a call that was never recorded in this place."""

    def __init__(
        self, step: Step, kernel: Kernel, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any],
        memory: Memory,
    ) -> None:  # fmt: skip
        self.step, self.kernel, self.entry = step, kernel, entry
        self.args, self.kwargs, self.memory = args, kwargs, memory
        self.new: dict[int, tuple[tuple[int, ...], str]] = {}
        self.numbers = [0, 0]
        self.contents: dict[Any, tuple[tuple[int, ...], str]] = {}

    def fill(self) -> None:
        step, kernel = self.step, self.kernel
        self._check_types()
        args, kwargs = kernel.on_others(self.args, self.kwargs)
        try:
            made = kernel.stock(*_to_meta(args), **_to_meta(kwargs))
        except NotImplementedError as why:
            raise NotRecorded(f"PyTorch has no meta kernel of it: {why}") from None
        except (RuntimeError, IndexError, ValueError) as why:
            _raise_as_cpu(kernel.stock, args, kwargs, why)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        slots = self.entry[1:]
        count = len(self.args)
        named = list(zip(slots[count::2], slots[count + 1 :: 2], strict=True))
        wheres = [kernel.where(name, self.args, self.kwargs) for name in kernel.writes]
        step.written = tuple(w for w in wheres if w is not None)
        overwritten = step.written if kernel.row.drops else ()
        arguments = [
            ("literal", None) if k in overwritten else self._argument(a, s)
            for k, (a, s) in enumerate(zip(self.args, slots[:count], strict=True))
        ]
        arguments += [("named", name, self._argument(self.kwargs[name], s)) for name, s in named]
        targets = [self._target(w, slots, dict(named)) for w in step.written]
        fresh = [r for r, name in zip(results, kernel.returns, strict=False) if name is None]
        given = [self._result(r) for r in fresh]
        step.fresh = tuple(None if r is None else self._tensor(r, shown) for r, shown in zip(fresh, given, strict=True))
        returned = [kernel.where(name, self.args, self.kwargs) for name in kernel.returns if name is not None]
        step.returned = tuple(w for w in returned if w is not None)
        step.single = not isinstance(made, (tuple, list))
        updated = [(tuple(self._get(w).shape), PRIMITIVE[self._get(w).dtype].label, None) for w in step.written]
        step.record = (kernel.row.name, tuple(arguments), tuple(targets), (*given, *updated))
        step.new = tuple(self.new[place] for place in sorted(self.new))
        step.numbers = self.numbers[0], self.numbers[1]
        self._rehearse()

    def _check_types(self) -> None:
        tensors = list(_tensors([self.args, self.kwargs]))
        for t in tensors:
            if PRIMITIVE.get(t.dtype) not in COMPUTED and (t.dim() or t.device.type != "cpu"):
                raise NotRecorded(f"no program computes with {t.dtype}")
        if self.kernel.row.floats and tensors and not tensors[0].dtype.is_floating_point:
            raise NotRecorded(f"its lowering takes floating-point numbers, not {tensors[0].dtype}")

    def _get(self, where: Where) -> torch.Tensor:
        found: torch.Tensor = self.args[where] if isinstance(where, int) else self.kwargs[where]
        return found

    def _argument(self, a: Any, slot: Any) -> Argument:
        """An argument as data. slot: as it stands in the entry."""
        if isinstance(slot, Number):
            self.numbers[slot.kind == "integer"] += 1
            return (slot.kind, slot.place)
        if isinstance(a, torch.Tensor):
            return self._read(a, slot)
        if isinstance(a, (list, tuple)):
            return ("list", tuple(self._argument(x, s) for x, s in zip(a, slot, strict=True)))
        if isinstance(a, (bool, int, float, str)):
            return ("literal", a)
        return ("literal", None)  # a type, a device, a memory format: results say what they come to

    def _read(self, a: torch.Tensor, slot: Any) -> Argument:
        """The contents of a tensor's storage, and its view of them."""
        contents, *view = slot if isinstance(slot[0], tuple) else (slot,)
        ref = contents[:2]
        block = self.memory.of(a)
        self.contents[ref] = block.shape, PRIMITIVE[block.dtype].label
        if len(contents) == 4:
            self.new[ref[1]] = self.contents[ref]
        if view and 0 not in view[0] and views.layout(math.prod(block.shape), (view[0], view[1], view[2])) is None:
            raise NotRecorded(f"a view of shape {list(view[0])} and strides {list(view[1])} is no part of a grid")
        return ("value", ref, tuple(view) if view else None)

    def _target(self, where: Where, slots: Sequence[Any], named: dict[str, Any]) -> Target:
        """What an argument that is written was before; no contents where all of it is replaced."""
        t = self._get(where)
        slot = slots[where] if isinstance(where, int) else named[where]
        if isinstance(slot, Number):
            raise RuntimeError("Expected all tensors to be on the same device: what is written is on the CPU")
        if slot[0] == WHOLE:
            return (None, None, tuple(slot[1]))
        _, contents, geometry = self._read(t, slot)
        block = self.memory.of(t)
        if 0 in t.shape:
            return (contents, geometry, block.shape)
        if geometry is None:
            return (None if self.kernel.row.drops else contents, None, block.shape)
        lay = views.layout(math.prod(block.shape), geometry)
        assert lay is not None
        if lay.broadcast != lay.shape:
            raise NotRecorded("a view is written of which elements share memory")
        whole = lay.size == lay.grid and math.prod(lay.grid) == math.prod(block.shape)
        return (None if whole else contents, geometry, block.shape)

    def _result(self, t: torch.Tensor | None) -> Result:
        """A new result as data. Its storage has the order of its strides where these are dense."""
        if t is None:
            return ((), "float32", None)
        if PRIMITIVE.get(t.dtype) not in COMPUTED:
            raise NotRecorded(f"no program computes with {t.dtype}")
        order = None if t.is_contiguous() or 0 in t.shape else order_of_strides(t.shape, t.stride())
        return (tuple(t.shape), PRIMITIVE[t.dtype].label, order)

    def _tensor(self, t: torch.Tensor, shown: Result) -> tuple[Any, ...]:
        """What `Memory.tensor` takes for a result."""
        shape, _, order = shown
        if order is None:
            held, strides = shape, contiguous_strides(shape)
        else:
            held, strides = tuple(shape[k] for k in order), tuple(t.stride())
        return (shape, strides, t.dtype, math.prod(shape) * DLPACK[t.dtype][1] // 8, held)

    def _rehearse(self) -> None:
        """Lowers the op on inputs of its own. Raises LoweringError or ShapeError where it has no lowering."""
        record = self.step.record
        assert record is not None
        b = Builder()
        op = op_of(0, record, _FLOATS, _INTEGERS)
        nodes = []
        for ref in op.inputs:
            if ref == (-1, _FLOATS) or ref == (-1, _INTEGERS):
                nodes.append(b.input((MOST_NUMBERS,), DType.F32 if ref[1] == _FLOATS else DType.I64))
            else:
                shape, label = self.contents[ref]
                nodes.append(b.input(shape, from_label(label)))
        op.lower(nodes, LoweringContext(b))


def order_of_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The axes of a tensor as its storage holds them; None where its strides are not dense."""
    order = tuple(sorted(range(len(shape)), key=lambda k: (-strides[k], -shape[k], k)))
    step = 1
    for k in reversed(order):
        if shape[k] != 1 and strides[k] != step:
            return None
        step *= shape[k]
    return order


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor that is held row by row."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from _tensors(x)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _raise_as_cpu(overload: Any, args: Any, kwargs: Any, why: Exception) -> NoReturn:
    """Raises what the CPU's kernel says to wrong arguments, whose words users know, or else `why`."""
    try:
        overload(*_placeholders(args), **_placeholders(kwargs))
    except Exception as theirs:
        raise theirs from None
    raise why from None


def _placeholders(value: Any) -> Any:
    """Arguments for a CPU kernel that is to refuse them."""
    if isinstance(value, torch.Tensor):
        return torch.zeros(value.shape, dtype=value.dtype)
    if isinstance(value, (list, tuple)):
        return [_placeholders(x) for x in value]
    return {k: _placeholders(x) for k, x in value.items()} if isinstance(value, dict) else value


def _to_meta(value: Any) -> Any:
    """Arguments for a meta kernel."""
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu":
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return [_to_meta(x) for x in value]
    if isinstance(value, dict):
        return {k: _to_meta(x) for k, x in value.items()}
    return value
