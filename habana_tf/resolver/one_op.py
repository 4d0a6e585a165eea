"""Makes the program of an eager op, over symbolic or run-time sizes where it can be.

Ops that have a form for all shapes (`Cluster.any_shape`) are lowered over symbolic extents; of a
product and of a copy the sizes are data (see `ir.loop_nest`). So ops that come to the same primitives share a recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from habana_tf.compiler.copied_elements import copied
from habana_tf.compiler.generic_products import generic_product
from habana_tf.hardware.cpu import Target
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.primitives import Program
from habana_tf.resolver.provenance import Provenance
from habana_tf.resolver.request import Request


@dataclass(frozen=True)
class OneOp:
    """program: what is compiled, of `source`. dims: the numbers behind its symbols here; shapes: its outputs' here,
    None where they are the program's own."""

    source: Provenance
    program: Program
    dims: Sequence[int] = ()
    shapes: list[tuple[int, ...]] | None = None


def one_op(met: Request, goal: Target) -> OneOp:
    """The program of a cluster of one op that met these shapes and values. Raises what lowering raises."""
    form = met.cluster.any_shape(met.shapes, met.values)
    if form is not None:
        source = Provenance(met.cluster, form.shapes, form.values)
        with suppress(NeedsNumber):  # of lowerings that the program brings
            program = source.program()
            return OneOp(source, program, form.dims, form.results([n.shape for n in program.results]))
    program = met.program()
    walk = generic_product(program, goal) or copied(program)
    if walk is not None:
        return OneOp(met, walk.program, walk.dims, [walk.shape])
    return OneOp(met, program)
