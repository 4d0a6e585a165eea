"""Vectors of bf16: conversions from and to float32, and pairs of neighbours."""

from __future__ import annotations

from habana_tf.compiler.codegen.emit import Function, Value, everywhere


def widen(fn: Function, lanes: int, halves: Value) -> Value:
    """<lanes x i16> of bf16 to <lanes x float>."""
    wide = fn.op(f"zext <{lanes} x i16> {halves} to <{lanes} x i32>")
    wide = fn.op(f"shl <{lanes} x i32> {wide}, {everywhere('i32', '16')}")
    return fn.op(f"bitcast <{lanes} x i32> {wide} to <{lanes} x float>")


def widen_one(fn: Function, half: Value) -> Value:
    """A bf16 (i16) as the bits (i32) of a float."""
    return fn.op(f"shl i32 {fn.op(f'zext i16 {half} to i32')}, 16")


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
