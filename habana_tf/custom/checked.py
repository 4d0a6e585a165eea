"""A lowering that a program brings, with what it must hold: it is checked at every launch that is compiled.

A mistake in a lowering of ours is a defect. One in a program's is everyday work, so it ends in a sentence: which op and
node, what is wrong, and the line of the program. What goes wrong over symbolic sizes says only that the lowering wants
numbers: it is asked again with those at hand (see `cluster.ranges`).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habana_tf.cluster.lowering_context import CustomLoweringError, LoweringError
from habana_tf.custom import shapes as declared
from habana_tf.ir.builder import ShapeError
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import DType, from_number
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import Lower

_PACKAGE = str(Path(__file__).parents[1])


def checked(lower: Lower, shapes: declared.Shapes = ()) -> Lower:
    """A lowering that raises CustomLoweringError where it fails or gives what its op does not.

    shapes: of the outputs as they are declared; nothing where the op is TensorFlow's.
    """

    def lowered(c: Lowering) -> list[Node]:
        symbolic = any(not isinstance(n, int) for x in c.inputs for n in x.shape)
        try:
            made = lower(c)
            nodes: list[Any] = list(made) if isinstance(made, (list, tuple)) else [made]
            _check(c, nodes, shapes)
        except NeedsNumber:
            raise
        except Exception as why:
            if symbolic:
                raise c.needs_number(f"its lowering wants numbers ({type(why).__name__}: {why})") from why
            raise _said(c, why) from why
        return nodes

    return lowered


def _said(c: Lowering, why: Exception) -> CustomLoweringError:
    """An exception of a lowering as an error for its author."""
    if isinstance(why, CustomLoweringError):
        return why
    if isinstance(why, LoweringError):  # by c.error, which names op, node and shapes
        return CustomLoweringError(str(why))
    if isinstance(why, ShapeError):
        return CustomLoweringError(f"{c.error(str(why))} ({_where(why)})")
    return CustomLoweringError(str(c.error(f"its lowering raised {type(why).__name__}: {why} ({_where(why)})")))


def _where(why: Exception) -> str:
    """The innermost line of the program, of those that an exception passed."""
    frames = traceback.extract_tb(why.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_PACKAGE)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}"


def _check(c: Lowering, nodes: Sequence[Any], shapes: declared.Shapes) -> None:
    wrong = next((n for n in nodes if not isinstance(n, Node)), None)
    if wrong is not None:
        hint = "; end a formula with .done(dtype)" if hasattr(wrong, "done") else ""
        raise c.error(f"its lowering gave a {type(wrong).__name__} where a node is due{hint}")
    types = [None] * len(c.row.updates) + _types(c)
    if len(nodes) != len(types):
        raise c.error(f"its lowering gave {len(nodes)} nodes, and the op has {len(types)} outputs")
    for k, (node, dtype) in enumerate(zip(nodes, types, strict=True)):
        if dtype is not None and node.dtype is not dtype:
            raise c.error(
                f"its lowering gave output {k} as {node.dtype}, and the op says {dtype}: c.b.cast makes it so"
            )
    if not shapes:
        return
    try:
        expected = declared.evaluate(shapes, [x.shape for x in c.inputs], c.attrs)
    except IndexError as why:
        raise c.error(f"its declared shapes name {why}") from why
    for k, (node, shape) in enumerate(zip(nodes, expected, strict=True)):
        if shape is not None and not _agree(node, shape):
            said = ["?" if n is None else n for n in shape]
            raise c.error(f"its lowering gave output {k} the shape {list(node.shape)}, and shapes= says {said}")


def _agree(node: Node, shape: Sequence[Any]) -> bool:
    return len(shape) == node.rank and all(n is None or n == m for n, m in zip(shape, node.shape, strict=True))


def _types(c: Lowering) -> list[DType | None]:
    """The element types of the op's outputs."""
    out: list[DType | None] = []
    for arg in opdefs.known(c.op).outputs:
        if arg.type_list_attr:
            out += [t if isinstance(t, DType) else None for t in c.attr(arg.type_list_attr, [])]
            continue
        dtype = c.attr(arg.type_attr) if arg.type_attr else from_number(arg.type)
        out += [dtype if isinstance(dtype, DType) else None] * (c.attr(arg.number_attr) if arg.number_attr else 1)
    return out


def output_types(c: Lowering) -> list[DType]:
    """The element types of the op's outputs. Raises LoweringError for one that HPU has not."""
    types = [t for t in _types(c) if t is not None]
    if len(types) != len(_types(c)):
        raise c.error("it has an output of an element type that HPU has not")
    return types
