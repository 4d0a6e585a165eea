"""Steps of optimizers on all weights at once."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload


def _terms(c: Call, nodes: Sequence[Node]) -> list[Term]:
    return [c.term(node, node.dtype) for node in nodes]


@overload("habana_tf::fused_adam_", runtime=["lr", "keep1", "log1", "keep2", "log2", "decay", "eps"], floats=True)
def fused_adam(
    c: Call, weights: list[Node], grads: list[Node], means: list[Node], squares: list[Node], largest: list[Node],
    steps: list[Node], lr: Operand, keep1: Operand, log1: Operand, keep2: Operand, log2: Operand,
    decay: Operand | None, eps: Operand, maximize: bool, decoupled: bool,
) -> list[Node]:  # fmt: skip
    """mean += keep1 * (grad - mean), square += keep2 * (grad^2 - square), and with 1 - beta^step = -expm1(step * log):
    weight -= lr / (1 - beta1^step) * mean / (sqrt(square / (1 - beta2^step)) + eps)."""
    rate, part1, part2, least = c.term(lr), c.term(keep1), c.term(keep2), c.term(eps)
    made: list[list[Node]] = [[], [], [], []]
    given = zip(*(_terms(c, nodes) for nodes in (weights, grads, means, squares, steps)), strict=True)
    for k, (weight, grad, mean, square, step) in enumerate(given):
        grad = -grad if maximize else grad
        if decay is not None and decoupled:
            weight = weight * (1.0 - rate * c.term(decay))
        elif decay is not None:
            grad = grad + weight * c.term(decay)
        mean = mean + (grad - mean) * part1
        square = square + (grad * grad - square) * part2
        high = square
        if largest:
            high = c.term(largest[k], largest[k].dtype).max(square)
            made[3].append(high.node)
        sure1, sure2 = (-(step * c.term(log)).map("expm1") for log in (log1, log2))
        below = high.map("sqrt") / sure2.map("sqrt") + least
        made[0].append((weight - mean / below * (rate / sure1)).node)
        made[1].append(mean.node)
        made[2].append(square.node)
    return [node for nodes in made for node in nodes]


@overload("habana_tf::fused_sgd_", runtime=["lr", "momentum", "keep", "decay"], floats=True)
def fused_sgd(
    c: Call, weights: list[Node], grads: list[Node], velocities: list[Node], lr: Operand, momentum: Operand,
    keep: Operand, decay: Operand | None, nesterov: bool, maximize: bool, first: bool,
) -> list[Node]:  # fmt: skip
    """velocity = momentum * velocity + keep * grad, of the first step grad; weight -= lr * velocity."""
    moved, held = [], []
    for k, (weight, grad) in enumerate(zip(_terms(c, weights), _terms(c, grads), strict=True)):
        grad = -grad if maximize else grad
        if decay is not None:
            grad = grad + weight * c.term(decay)
        if velocities:
            old = c.term(velocities[k], velocities[k].dtype)
            velocity = grad if first else old * c.term(momentum) + grad * c.term(keep)
            held.append(velocity.node)
            grad = grad + velocity * c.term(momentum) if nesterov else velocity
        moved.append((weight - grad * c.term(lr)).node)
    return [*moved, *held]
