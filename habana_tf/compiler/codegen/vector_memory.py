"""Byte addresses, partial vectors in memory, and conversions between bf16 and float32."""

from __future__ import annotations

from habana_tf.compiler.codegen.emit import BYTES, Function, Value, everywhere


def masked_load(fn: Function, element: str, lanes: int, pointer: Value, mask: str | None) -> Value:
    """Loads a vector; lanes outside the mask (if any) are not accessed and are zeros."""
    if mask is None:
        return fn.load(f"<{lanes} x {element}>", pointer, BYTES[element])
    return fn.masked_load(element, lanes, pointer, mask)


def masked_store(fn: Function, element: str, lanes: int, value: Value, pointer: Value, mask: str | None) -> None:
    """Stores a vector's lanes within the mask, or all."""
    if mask is None:
        fn.store(f"<{lanes} x {element}>", value, pointer, BYTES[element])
    else:
        fn.masked_store(element, lanes, value, pointer, mask)


def at(fn: Function, pointer: Value, distance: int | Value) -> Value:
    """`pointer` plus an offset in bytes."""
    if str(distance) == "0":
        return pointer
    return fn.op(f"getelementptr i8, ptr {pointer}, i64 {distance}")


def widen(fn: Function, lanes: int, halves: Value) -> Value:
    """<lanes x i16> of bf16 to <lanes x float>."""
    wide = fn.op(f"zext <{lanes} x i16> {halves} to <{lanes} x i32>")
    wide = fn.op(f"shl <{lanes} x i32> {wide}, {everywhere('i32', '16')}")
    return fn.op(f"bitcast <{lanes} x i32> {wide} to <{lanes} x float>")


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
