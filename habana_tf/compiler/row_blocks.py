"""Blocked attention (as in FlashAttention): loops over blocks of query rows, so that scores stay in the cache and
memory grows linearly with the sequence.

    s[b,h,t,u] = q k^T;  p = softmax(s);  o = p v                 tensors over t and u go through memory several times
    ->  loop over blocks of t, separately for each b and h:       their blocks are some hundred KB of workspace
            s[u,32] = k q[32]^T;  p = softmax(s);  o[32] = p^T v

A product is *wide* if its result exceeds a cache and is larger than its operands. Values computed from it elementwise
or by reductions over rows are wide, too, up to products that sum over one of its axes: the *ends*, whose results are
small again. Independent ends form one loop (`Op.LOOP`): the forward pass is one, with the output as its end, and the
backward pass another, with the gradients of q, k and v. The first loop leaves row statistics (maximum, sum) for the
second, and the probabilities, which the ends multiply, up to a size. Beyond it the backward pass recomputes scores and
probabilities from q, k and the row statistics, so that no wide value is live between the passes.

    blocks       the batch axes of all tensors (batch and heads): work items, as in `loop_blocks`
    iterations   blocks of rows. Ends with rows are stacked, ends that sum over rows are carried

Within a block rows are the last axis and are vectorized: reductions over a row give vectors of results, products read k
and v in place and pack only the few rows of q.

Not converted: wide values that are outputs or have other users, wide random tensors (dropout), and groups of too few
heads for several threads. Block sizes depend on shapes only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from habana_tf.compiler.row_block_groups import ProductGroup, groups
from habana_tf.compiler.row_block_loop import RowLoop
from habana_tf.ir.primitives import Node, Program, with_sources


def in_row_blocks(program: Program) -> Program:
    """The program (after `rewrite`) with a loop for each group of ends."""
    found = groups(program)
    if not found:
        return program
    loops = {node: group for group in found for node in (*group.ends, *group.leaves)}
    return replace(program, outputs=_Rebuilt(loops).all(program.outputs))


class _Rebuilt:
    """Rebuilds a graph with loops instead of ends."""

    def __init__(self, loops: Mapping[Node, ProductGroup]) -> None:
        self._loops = loops
        self._made: dict[Node, Node] = {}
        self._loop = RowLoop()

    def all(self, nodes: Sequence[Node]) -> list[Node]:
        stack = [(n, False) for n in reversed(nodes)]
        while stack:
            node, ready = stack.pop()
            if node in self._made:
                continue
            needed = self._needed(node)
            if not ready and any(n not in self._made for n in needed):
                stack.append((node, True))
                stack.extend((n, False) for n in reversed(list(needed)) if n not in self._made)
            elif node in self._loops:
                self._made.update(self._loop.build(self._loops[node], self._made))
            else:
                self._made[node] = with_sources(node, tuple(self._made[s] for s in node.src))
        return [self._made[n] for n in nodes]

    def _needed(self, node: Node) -> Collection[Node]:
        group = self._loops.get(node)
        return node.src if group is None else group.sources()
