"""Constant folding: evaluates nodes that depend only on constants and known inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from habana_tf.ir import interpreter, symbolic_values
from habana_tf.ir.conditions import Premises
from habana_tf.ir.primitives import Node, Op

LARGEST_CONSTANT = 65536
"""The most elements of a tensor that is folded."""


def constant(node: Node, fixed: dict[Node, Any], premises: Premises | None = None) -> Any | None:
    """The value of a node that depends only on constants and `fixed` nodes, else None.

    Values are added to `fixed`, so that each is evaluated once. None, too, if the value or one that it depends on has
    more than LARGEST_CONSTANT elements or a symbolic shape. With symbolic extents it is an array of objects;
    `premises` (see `conditions`) decide comparisons.
    """
    order: dict[Node, None] = {}
    stack = [(node, False)]
    while stack:
        n, done = stack.pop()
        if done:
            order[n] = None
        elif n not in fixed and n not in order:
            numel = n.numel
            if n.op is Op.INPUT or not isinstance(numel, int) or numel > LARGEST_CONSTANT:
                return None
            stack.append((n, True))
            stack.extend((s, False) for s in n.src)
    with np.errstate(all="ignore"):
        for n in order:
            src = [fixed[s] for s in n.src]
            if n.op is Op.EXTENT or any(s.dtype == object for s in src):
                value = symbolic_values.evaluate(n, src, interpreter.RULES, premises)
                if value is None:
                    return None
                fixed[n] = value
            else:
                fixed[n] = interpreter.evaluate(n, src)
    return fixed[node]
