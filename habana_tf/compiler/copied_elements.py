"""Eager ops that only reshape their input (a transposition of axes of size 1, say), as one generic copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from habana_tf.compiler.contraction_operands import view_of
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.view_indices import strides
from habana_tf.ir import extent as ext
from habana_tf.ir.loop_nest import as_number
from habana_tf.ir.primitives import Node, Op, Program


@dataclass(frozen=True)
class Copied:
    """A program that copies an input: input k has sk elements, whatever else the op reads. dims: how many each has;
    shape: of the result."""

    program: Program
    dims: list[int]
    shape: tuple[int, ...]


def copied(program: Program) -> Copied | None:
    """The generic form of a program whose output is an input's elements in the same order; None for others."""
    symbolic = any(not isinstance(n, int) for x in program.inputs for n in x.shape)
    if len(program.outputs) != 1 or program.states or program.conditions or symbolic:
        return None
    (out,) = program.outputs
    shape = tuple(n for n in out.shape if isinstance(n, int))
    if not primitive(out).is_view or len(shape) < out.rank or 0 in shape:
        return None
    view = view_of(out, set(program.inputs))
    if view is None or view.guards or view.offset or view.base.numel != out.numel:
        return None
    wide = [k for k, n in enumerate(shape) if n != 1]
    steps = strides(shape)
    if any(view.strides[k] != steps[k] for k in wide):
        return None
    dims = [math.prod(map(as_number, x.shape)) for x in program.inputs]
    flat = [replace(x, shape=(ext.sym(k),)) for k, x in enumerate(program.inputs)]
    source = flat[program.inputs.index(view.base)]
    made = Node(Op.RESHAPE, (source,), source.shape, out.dtype, None, out.origin)
    return Copied(Program(flat, [made]), dims, shape)
