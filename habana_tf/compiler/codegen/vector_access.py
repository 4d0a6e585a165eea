"""Emits loads and stores of buffers for some neighbouring points, one per lane, under a predicate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.index_evaluator import IndexEvaluator
from habana_tf.compiler.codegen.lanes import memory_type, register_type
from habana_tf.compiler.costs import CACHE_LINE
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, Var


class Val(NamedTuple):
    """An emitted value: its register, and whether it is a scalar for all lanes."""

    name: Value
    uniform: bool


@dataclass
class Mask:
    """An emitted predicate of memory accesses: a scalar condition and one per lane; None for true."""

    scalar: Value | None = None
    lanes: Value | None = None


class VectorAccess(IndexEvaluator):
    """Emits accesses within a function."""

    STREAMED: ClassVar[Collection[int]] = (CACHE_LINE // 2, CACHE_LINE)
    """Vector sizes in bytes for non-temporal stores: loops store halves of a line consecutively."""

    def __init__(self, fn: Function, lanes: int, vector: Var | None) -> None:
        super().__init__(fn, lanes, vector)
        self.guard = Mask()
        self.written: set[int] = set()
        self.streamed: set[int] = set()
        self.pointers: dict[int, Value] = {}

    def spread(self, value: Val, lane: str) -> Value:
        return self.fn.splat(self.lanes, lane, value.name) if value.uniform else value.name

    def pointer(self, buffer: int) -> Value:
        """The base pointer of a buffer, loaded by `preload`."""
        return self.pointers[buffer]

    def preload(self, count: int) -> None:
        """Loads the buffers' base pointers; call it in the entry block."""
        for k in range(count):
            self.pointers[k] = self.fn.buffer(k)

    def mask(self) -> Value | None:
        """The current predicate as an i1 per lane; None if all lanes are active."""
        scalar, lanes = self.guard.scalar, self.guard.lanes
        if scalar is None:
            return lanes
        wide = self.fn.splat(self.lanes, "i1", scalar)
        return wide if lanes is None else self.many.op("and", lanes, wide, "i1")

    def load(self, buffer: int, dtype: DType, offset: Extent, base: Value = "0") -> Val:
        """The element(s) at `base + offset` (in elements) of a buffer."""
        lane, size = memory_type(dtype), dtype.bytes
        invariant = buffer not in self.written
        stride = self.stride(offset)
        if stride == 0:
            at = self.fn.add(base, self.number(offset))
            if self.guard.scalar is not None:
                at = self.fn.op(f"select i1 {self.guard.scalar}, i64 {at}, i64 0")
            raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, at), size, invariant)
            return Val(self.one.from_memory(raw, dtype), True)
        if stride == 1:
            address = self.fn.offset(self.pointer(buffer), lane, self.fn.add(base, self.number(offset)))
            vector = self.many.type(lane)
            mask = self.mask()
            if self.lanes == 1 or mask is None:
                if mask is not None:
                    return self._one_lane(buffer, dtype, self.fn.add(base, self.number(offset)), mask)
                raw = self.fn.load(vector, address, size, invariant)
            elif self.guard.lanes is None and self.fn.branches(lane):
                assert self.guard.scalar is not None
                raw = self.fn.load_if(self.guard.scalar, lane, self.lanes, address)
            else:
                raw = self.fn.masked_load(lane, self.lanes, address, mask)
            return Val(self.many.from_memory(raw, dtype), False)
        offsets = self.numbers(offset)
        if base != "0":
            offsets = self.many.op("add", offsets, self.fn.splat(self.lanes, "i64", base), "i64")
        return self.load_lanes(buffer, dtype, offsets)

    def _one_lane(self, buffer: int, dtype: DType, at: Value, mask: Value) -> Val:
        lane = memory_type(dtype)
        safe = self.fn.op(f"select i1 {mask}, i64 {at}, i64 0")
        raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, safe), dtype.bytes)
        return Val(self.one.from_memory(raw, dtype), False)

    def load_lanes(self, buffer: int, dtype: DType, offsets: Value) -> Val:
        """One element per lane, at the lane's own offset."""
        lane, size = memory_type(dtype), dtype.bytes
        mask = self.mask()
        if self.lanes == 1:
            if mask is not None:
                return self._one_lane(buffer, dtype, offsets, mask)
            raw = self.fn.load(lane, self.fn.offset(self.pointer(buffer), lane, offsets), size)
            return Val(self.one.from_memory(raw, dtype), False)
        pointers = self.fn.op(f"getelementptr {lane}, ptr {self.pointer(buffer)}, <{self.lanes} x i64> {offsets}")
        raw = self.fn.gather(lane, self.lanes, pointers, mask or self.many.constant("true", "i1"))
        return Val(self.many.from_memory(raw, dtype), False)

    def _streams(self, buffer: int, dtype: DType, offset: Extent) -> bool:
        """Whether a vector is stored non-temporally: its buffer is `streamed`, its size is allowed, and it is aligned
        (buffers are aligned to lines)."""
        return buffer in self.streamed and self.lanes * dtype.bytes in self.STREAMED and self.in_step(offset)

    def in_step(self, offset: Extent) -> bool:
        """Whether an offset is always a multiple of the lanes, given that the vector variable is."""
        if isinstance(offset, int):
            return offset % self.lanes == 0
        others = [c for atom, c in offset.terms if atom != self.vector]
        return all(part % self.lanes == 0 for part in (offset.const, *others))

    def store(self, buffer: int, dtype: DType, offset: Extent, value: Val) -> None:
        """Stores the lanes at `offset` (in elements) of a buffer; the offset must depend on the vector variable."""
        lane, size = memory_type(dtype), dtype.bytes
        address = self.fn.offset(self.pointer(buffer), lane, self.number(offset))
        if self.lanes == 1:
            raw = self.one.to_memory(value.name, dtype)
            if self.guard.scalar is None and self.guard.lanes is None:
                self.fn.store(lane, raw, address, size)
            else:
                condition = self.mask()
                assert condition is not None
                with self.fn.when(condition):
                    self.fn.store(lane, raw, address, size)
            return
        raw = self.many.to_memory(self.spread(value, register_type(dtype)), dtype)
        vector = self.many.type(lane)
        stride = self.stride(offset)
        mask = self.mask()
        if stride == 1 and mask is None and self._streams(buffer, dtype, offset):
            self.fn.store_past_caches(vector, raw, address, self.lanes * size)
        elif stride == 1 and mask is None:
            self.fn.store(vector, raw, address, size)
        elif stride == 1:
            assert mask is not None
            self.fn.masked_store(lane, self.lanes, raw, address, mask)
        else:
            pointers = self.fn.op(
                f"getelementptr {lane}, ptr {self.pointer(buffer)}, <{self.lanes} x i64> {self.numbers(offset)}"
            )
            self.fn.scatter(lane, self.lanes, raw, pointers, mask or self.many.constant("true", "i1"))
