"""Makes attention block by block, so that its scores stay in the cache and memory grows linearly with the sequence.

    s[b,h,t,u] = q k^T;  p = softmax(s);  o = p v                 tensors over t and u go through memory several times
    ->  loop over blocks of t, for each b and h by itself:        a block of them is some hundred KB of workspace
            s[u,32] = k q[32]^T;  p = softmax(s);  o[32] = p^T v

A product is *wide* if its result is larger than a cache and than what it is made of. All that is computed of it point
by point and row by row is wide too, up to products that sum over one of its axes: those are the *ends*, whose results
are small again. Ends that no other end of the group needs are one loop (`Op.LOOP`): the forward pass is one, with the
output for its end, and the backward pass another with the gradients of q, k and v. What a row comes to (its maximum,
its sum) is handed from the first to the second, and the probabilities, which are what ends multiply, up to a size.
Beyond it the backward pass makes scores and probabilities once more, from q, k and these sums, and nothing wide lives
from one pass to the other.

    blocks       the axes that all tensors have in common (batch and heads): work items, as in `loop_blocks`
    iterations   the rows, some at a time. An end with rows leaves them; one that sums over rows carries its sum

Within a block rows come last: vectors run along rows, so that reductions over a row are vectors of results, products
read k and v as they lie, and pack only the few rows of q.

Left as it is: wide values that leave the program or that anybody else reads, wide tensors of random words (dropout),
and what has too few heads to share among threads. How much is done at a time depends on shapes only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from habana_tf.compiler.row_block_groups import Group, groups
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
    """Nodes anew, with loops in the place of ends."""

    def __init__(self, loops: Mapping[Node, Group]) -> None:
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
