"""Elements of products' operands in memory, as float32 and as bf16; pairs of bf16 neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.compiler.codegen.emit import Function, Value, everywhere
from habana_tf.compiler.codegen.float8 import F16_SCALE
from habana_tf.compiler.codegen.lanes import memory_type
from habana_tf.compiler.codegen.scalar import Scalar
from habana_tf.ir.dtypes import DType


@dataclass(frozen=True)
class Form:
    """How the elements of a product's operand lie in memory: as numbers of a type, or as words of two bf16 neighbours
    along the innermost label of the sum. largest: see `ir.primitives.Contraction`. scale: a power of two by which they
    are multiplied when they are read."""

    dtype: DType
    largest: float | None = None
    pairs: bool = False
    scale: float = 1.0

    @property
    def bytes(self) -> int:
        return 4 if self.pairs else self.dtype.bytes

    @property
    def lane(self) -> str:
        """The LLVM type of an element."""
        return memory_type(self.dtype)

    @property
    def natural(self) -> float:
        """The scale that takes least, on a CPU that converts float16."""
        return 1 / F16_SCALE if self.dtype is DType.F8E4M3 else 1.0

    def floats(self, fn: Function, lanes: int, x: Value) -> Value:
        """Elements from memory as float32."""
        ops = Scalar(fn, lanes)
        if self.dtype is DType.F8E4M3:
            return ops.from_float8(x, self.dtype, self.largest, self.scale, signs=False)
        wide = ops.cast(ops.from_memory(x, self.dtype), self.dtype, DType.F32)
        return wide if self.scale == 1 else ops.op("fmul", wide, ops.f(self.scale))

    def halves(self, fn: Function, lanes: int, x: Value) -> Value:
        """Elements from memory as the bits (i16) of bf16, which holds their numbers."""
        if self.dtype is DType.BF16:
            return x
        ops = Scalar(fn, lanes)
        words = ops.convert("bitcast", self.floats(fn, lanes, x), "float", "i32")
        return ops.convert("trunc", ops.op("lshr", words, ops.i(16), "i32"), "i32", "i16")


F32 = Form(DType.F32)
PAIRS = Form(DType.BF16, pairs=True)


def part(fn: Function, lanes: int, x: Value, first: int) -> Value:
    """`lanes` neighbouring lanes of a vector of floats twice as long."""
    places = ", ".join(f"i32 {first + k}" for k in range(lanes))
    wide = f"<{2 * lanes} x float>"
    return fn.op(f"shufflevector {wide} {x}, {wide} poison, <{lanes} x i32> <{places}>")


def interleave(fn: Function, lanes: int, first: Value, second: Value) -> Value:
    """The <2 * lanes x i16> of alternating elements of two <lanes x i16>: pairs for dot products."""
    half = f"<{lanes} x i16>"
    order = ", ".join(f"i32 {i}, i32 {lanes + i}" for i in range(lanes))
    return fn.op(f"shufflevector {half} {first}, {half} {second}, <{2 * lanes} x i32> <{order}>")


def narrow(fn: Function, lanes: int, value: Value) -> Value:
    """<lanes x float> to <lanes x i16> of bf16: nearest even, NaN stays NaN; for CPUs without an instruction."""
    words = f"<{lanes} x i32>"

    def all_(x: int) -> str:
        return everywhere("i32", str(x))

    bits = fn.op(f"bitcast <{lanes} x float> {value} to {words}")
    top = fn.op(f"lshr {words} {bits}, {all_(16)}")
    odd = fn.op(f"and {words} {top}, {all_(1)}")
    up = fn.op(f"add {words} {fn.op(f'add {words} {bits}, {all_(0x7FFF)}')}, {odd}")
    rounded = fn.op(f"lshr {words} {up}, {all_(16)}")
    nan = fn.op(f"fcmp uno <{lanes} x float> {value}, zeroinitializer")
    quiet = fn.op(f"or {words} {top}, {all_(0x40)}")
    out = fn.op(f"select <{lanes} x i1> {nan}, {words} {quiet}, {words} {rounded}")
    return fn.op(f"trunc {words} {out} to <{lanes} x i16>")
