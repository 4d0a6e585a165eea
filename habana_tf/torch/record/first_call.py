"""Makes the tree node of a call that was not recorded in this place before: the results by PyTorch's meta kernels, the
op as data, and a trial of its lowering, so that a refusal is known before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir.builder import ShapeError
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.torch.memory import views
from habana_tf.torch.memory.element_types import COMPUTED, DLPACK, PRIMITIVE
from habana_tf.torch.memory.layouts import SinkingBuilder
from habana_tf.torch.memory.storage import Memory
from habana_tf.torch.memory.strides import contiguous_strides, format_of, order_of_strides
from habana_tf.torch.record import cpu_check, meta, number_forms, scopes
from habana_tf.torch.record.nested import tensors
from habana_tf.torch.record.overload import (
    MOST_RUN_TIME_NUMBERS,
    WHOLE,
    NotRecorded,
    Number,
    Overload,
    PartOfStorage,
    Where,
    tensor_at,
)
from habana_tf.torch.record.program import RecordedArgument, RecordedResult, RecordedTarget, op_of
from habana_tf.torch.record.tree import TreeNode

_FLOATS, _INTEGERS = 1 << 30, (1 << 30) + 1
"""Numbers of inputs that stand for the vectors of run-time numbers when an op is lowered on trial."""
_MASKED = "torch.nonzero()"
"""In PyTorch's message about an index that is a mask; meta kernels cannot know how many of its elements are true."""


def node_of(
    before: TreeNode, kernel: Overload, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any],
    memory: Memory,
) -> TreeNode:  # fmt: skip
    """The node of a call after the node `before`. Raises what PyTorch raises for wrong arguments."""
    node = TreeNode(before.index + 1, before, scope=scopes.now(), line=scopes.line())
    try:
        _Filling(node, kernel, entry, args, kwargs, memory).fill()
    except NotRecorded as why:
        node.refused = str(why)
    except (LoweringError, ShapeError) as why:
        node.refused = str(why)
    return node


class _Filling:
    """Computes the fields of a new node."""

    def __init__(
        self, node: TreeNode, kernel: Overload, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any],
        memory: Memory,
    ) -> None:  # fmt: skip
        self.node, self.kernel, self.entry = node, kernel, entry
        self.args, self.kwargs, self.memory = args, kwargs, memory
        self.new: dict[int, tuple[tuple[int, ...], str]] = {}
        self.parameters: list[int] = []
        self.numbers = [0, 0]
        self.contents: dict[Any, tuple[tuple[int, ...], str]] = {}

    def fill(self) -> None:
        node, kernel = self.node, self.kernel
        self._check_types()
        args, kwargs = kernel.on_others(self.args, self.kwargs)
        stock = number_forms.taking_numbers(kernel.stock, args, kwargs)
        try:
            made = meta.results(stock, args, kwargs)
        except NotImplementedError as why:
            if torch.Tag.data_dependent_output in kernel.stock.tags or _MASKED in str(why):
                raise NotRecorded("the shape of its result depends on values") from None
            raise NotRecorded(f"PyTorch has no meta kernel of it: {why}") from None
        except Exception as why:
            cpu_check.check(stock, args, kwargs, mixed=kernel.row.mixed)
            raise NotRecorded(f"PyTorch's meta kernel refuses it, and its CPU kernel does not: {why}") from None
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if kernel.row.pictures:
            results = [self._picture(r) for r in results]
        if kernel.row.in_rows:
            results = [torch.empty(r.shape, dtype=r.dtype, device="meta") for r in results]
        slots = self.entry[1:]
        count = len(self.args)
        named = list(zip(slots[count::2], slots[count + 1 :: 2], strict=True))
        node.written = kernel.written(self.args, self.kwargs)
        if len(node.written) > 1:
            self._check_apart()
        overwritten = node.written if kernel.row.drops else ()
        arguments = [
            ("literal", None) if k in overwritten else self._argument(a, s)
            for k, (a, s) in enumerate(zip(self.args, slots[:count], strict=True))
        ]
        arguments += [("named", name, self._argument(self.kwargs[name], s)) for name, s in named]
        targets = [self._target(w, slots, dict(named)) for w in node.written]
        fresh = [r for r, name in zip(results, kernel.returns, strict=False) if name is None]
        given = [self._result(r) for r in fresh]
        node.fresh = tuple(None if r is None else self._tensor(r, shown) for r, shown in zip(fresh, given, strict=True))
        returned = [kernel.where(name, self.args, self.kwargs) for name in kernel.returns if name is not None]
        node.returned = tuple(w for w in returned if w is not None)
        node.single = not isinstance(made, (tuple, list))
        alone = len(node.fresh) == 1 and node.fresh[0] is not None
        node.plain = node.single and alone and not node.written and not node.returned
        updated = [(tuple(self._get(w).shape), PRIMITIVE[self._get(w).dtype].label, None) for w in node.written]
        node.record = (kernel.row.name, tuple(arguments), tuple(targets), (*given, *updated))
        node.new = tuple(self.new[k] for k in sorted(self.new))
        node.parameters = tuple(self.parameters)
        node.numbers = self.numbers[0], self.numbers[1]
        try:
            self._rehearse()
        except (LoweringError, ShapeError):
            raise  # the CPU computes it, or refuses it
        except Exception as why:
            cpu_check.check(stock, args, kwargs, results, kernel.row.mixed)
            if isinstance(why, (OverflowError, ValueError)):
                raise NotRecorded(f"a number is beyond its type: {why}") from None
            raise
        cpu_check.check(stock, args, kwargs, results, kernel.row.mixed)

    def _check_types(self) -> None:
        met = list(tensors([self.args, self.kwargs]))
        for t in met:
            if PRIMITIVE.get(t.dtype) not in COMPUTED and (t.dim() or t.device.type != "cpu"):
                raise NotRecorded(f"no program computes with {t.dtype}")
        if self.kernel.row.floats and met and not met[0].dtype.is_floating_point:
            raise NotRecorded(f"its lowering takes floating-point numbers, not {met[0].dtype}")

    def _check_apart(self) -> None:
        """Refuses an op that writes several tensors with shared memory: a program reads all before it writes any, and
        PyTorch's CPU, which writes one tensor after the other, would read elements that it has just written."""
        written = {id(self._get(where)) for where in self.node.written}
        spans = []
        for t in tensors([self.args, self.kwargs]):
            if t.numel() and t.device.type == "hpu":
                last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
                spans.append((t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size(), id(t) in written))
        seen = changed = 0
        for begin, end, is_written in sorted(spans):
            if begin < (seen if is_written else changed):
                raise NotRecorded("tensors that it writes share elements with others")
            seen = max(seen, end)
            changed = max(changed, end) if is_written else changed

    def _get(self, where: Where) -> torch.Tensor:
        return tensor_at(where, self.args, self.kwargs)

    def _argument(self, a: Any, slot: Any) -> RecordedArgument:
        """An argument as data. slot: as it stands in the entry."""
        if isinstance(slot, Number):
            self.numbers[slot.kind == "integer"] += 1
            return (slot.kind, slot.position)
        if isinstance(a, torch.Tensor):
            return self._read(a, slot)
        if isinstance(a, (list, tuple)):
            return ("list", tuple(self._argument(x, s) for x, s in zip(a, slot, strict=True)))
        if isinstance(a, (bool, int, float, str)):
            return ("literal", a)
        if isinstance(a, complex):
            raise NotRecorded("no program computes with complex numbers")
        return ("literal", None)  # a type, a device, a memory format: results say what they come to

    def _read(self, a: torch.Tensor, slot: Any) -> RecordedArgument:
        """A tensor that is read, as data: the contents of its storage, and its view of them."""
        contents, *view = slot if isinstance(slot[0], tuple) else (slot,)
        ref = contents[:2]
        block = self.memory.of(a)
        part = isinstance(contents, PartOfStorage)
        shape = contents.shape if part else block.shape
        self.contents[ref] = shape, PRIMITIVE[block.dtype].label
        if contents.first if part else len(contents) == 4:
            self.new[ref[1]] = self.contents[ref]
            if isinstance(a if a._base is None else a._base, torch.nn.Parameter):
                self.parameters.append(ref[1])
        if view and 0 not in view[0] and views.layout(shape, (view[0], view[1], view[2])) is None:
            raise NotRecorded("a view's strides are no part of a grid: its elements overlap, or have uneven gaps")
        return ("value", ref, tuple(view) if view else None)

    def _target(self, where: Where, slots: Sequence[Any], named: dict[str, Any]) -> RecordedTarget:
        """A tensor that is written, as data: the old contents of its storage, none where all of them are replaced, and
        its view."""
        t = self._get(where)
        whole, k = where if isinstance(where, tuple) else (where, None)
        slot = slots[whole] if isinstance(whole, int) else named[whole]
        slot = slot if k is None else slot[k]
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
        lay = views.layout(block.shape, geometry)
        assert lay is not None
        if lay.broadcast != lay.shape:
            raise NotRecorded("a view is written of which elements share memory")
        whole = lay.size == lay.grid and math.prod(lay.grid) == math.prod(block.shape)
        return (None if whole else contents, geometry, block.shape)

    def _picture(self, r: torch.Tensor | None) -> torch.Tensor | None:
        """A result in the memory format (channels last or not) of the operands that decide it. Meta kernels do not say
        it."""
        form = format_of(*(self.args[k] for k in self.kernel.row.pictures))
        if r is None or form is torch.contiguous_format or r.dim() != (4 if form is torch.channels_last else 5):
            return r
        return torch.empty(r.shape, dtype=r.dtype, device="meta", memory_format=form)

    def _result(self, t: torch.Tensor | None) -> RecordedResult:
        """A new result as data. Its storage has the order of its strides, where these are dense."""
        if t is None:
            return ((), "float32", None)
        if PRIMITIVE.get(t.dtype) not in COMPUTED:
            raise NotRecorded(f"no program computes with {t.dtype}")
        order = None if t.is_contiguous() or 0 in t.shape else order_of_strides(t.shape, t.stride())
        return (tuple(t.shape), PRIMITIVE[t.dtype].label, order)

    def _tensor(self, t: torch.Tensor, shown: RecordedResult) -> tuple[Any, ...]:
        """What `Memory.tensor` takes for a result."""
        shape, _, order = shown
        if order is None:
            held, strides = shape, tuple(t.stride()) if t.is_contiguous() else contiguous_strides(shape)
        else:
            held, strides = tuple(shape[k] for k in order), tuple(t.stride())
        return (shape, strides, t.dtype, math.prod(shape) * DLPACK[t.dtype][1] // 8, held)

    def _rehearse(self) -> None:
        """Lowers the op on trial, on inputs of its own. Raises LoweringError or ShapeError where it has no lowering."""
        record = self.node.record
        assert record is not None
        b = SinkingBuilder()
        op = op_of(0, record, _FLOATS, _INTEGERS)
        nodes = []
        for ref in op.inputs:
            if ref == (-1, _FLOATS) or ref == (-1, _INTEGERS):
                nodes.append(b.input((MOST_RUN_TIME_NUMBERS,), DType.F32 if ref[1] == _FLOATS else DType.I64))
            else:
                shape, label = self.contents[ref]
                nodes.append(b.input(shape, from_label(label)))
        op.lower(nodes, LoweringContext(b))
