"""Activations and their gradients."""

from __future__ import annotations

import math

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, both, overload


@overload(*both("relu"))
def relu(c: Call, x: Operand) -> Node:
    return c.elementwise("max", x, 0)


@overload("threshold_backward", runtime=["threshold"], literal=lambda n: n == 0)
def threshold_backward(c: Call, dy: Node, x: Node, threshold: Operand) -> Node:
    return c.term(x).test("le", c.term(threshold)).where(Term(c.b, c.b.const(0, dy.dtype.accumulator)), c.term(dy)).node


@overload("sigmoid_backward", floats=True)
def sigmoid_backward(c: Call, dy: Node, y: Node) -> Node:
    out = c.term(y)
    return (c.term(dy) * (1.0 - out) * out).node


@overload("tanh_backward", floats=True)
def tanh_backward(c: Call, dy: Node, y: Node) -> Node:
    out = c.term(y)
    return (c.term(dy) * (1.0 - out * out)).node


@overload("gelu", floats=True)
def gelu(c: Call, x: Node, approximate: str = "none") -> Node:
    t = c.term(x)
    if approximate == "tanh":
        inner = (t + t * t * t * 0.044715) * math.sqrt(2 / math.pi)
        return (t * 0.5 * (inner.map("tanh") + 1.0)).node
    return (t * 0.5 * ((t * math.sqrt(0.5)).map("erf") + 1.0)).node


@overload("gelu_backward", floats=True)
def gelu_backward(c: Call, dy: Node, x: Node, approximate: str = "none") -> Node:
    t, grad = c.term(x), c.term(dy)
    if approximate == "tanh":
        beta = math.sqrt(2 / math.pi)
        bent = ((t + t * t * t * 0.044715) * beta).map("tanh")
        slope = (1.0 - bent * bent) * beta * (t * t * (3 * 0.044715) + 1.0)
        return (grad * ((bent + 1.0) * 0.5 + t * 0.5 * slope)).node
    below = ((t * math.sqrt(0.5)).map("erf") + 1.0) * 0.5
    density = (t * t * -0.5).map("exp") * (1 / math.sqrt(2 * math.pi))
    return (grad * (below + t * density)).node


@overload(*both("threshold"), runtime=["threshold", "value"], floats=True)
def threshold(c: Call, x: Node, threshold: Operand, value: Operand) -> Node:
    t = c.term(x)
    return t.test("le", c.term(threshold)).where(c.term(value), t).node


def _like(t: Term, number: float) -> Term:
    """A number as an operand of the type of another."""
    return Term(t.b, t.b.const(number, t.node.dtype))


def _within(t: Term, low: Term | float, high: Term | float, first: str = "gt", last: str = "lt") -> Term:
    """Whether low < t < high, or with the comparisons given."""
    return Term(t.b, t.b.binary("and", t.test(first, low).node, t.test(last, high).node))


@overload(*both("leaky_relu"), runtime=["negative_slope"], floats=True)
def leaky_relu(c: Call, x: Node, negative_slope: Operand = 0.01) -> Node:
    t = c.term(x)
    return t.test("gt", 0).where(t, t * c.term(negative_slope)).node


def _negative(n: float) -> bool:
    """Of an activation in place no gradient can be told from its result then: PyTorch refuses such a number."""
    return n < 0


@overload("leaky_relu_backward", runtime=["negative_slope"], floats=True, literal=_negative)
def leaky_relu_backward(c: Call, dy: Node, x: Node, negative_slope: Operand, self_is_result: bool) -> Node:
    grad = c.term(dy)
    return c.term(x).test("gt", 0).where(grad, grad * c.term(negative_slope)).node


@overload("_prelu_kernel", floats=True)
def prelu(c: Call, x: Node, weight: Node) -> Node:
    t = c.term(x)
    return t.test("gt", 0).where(t, t * c.term(weight)).node


@overload("_prelu_kernel_backward", floats=True)
def prelu_backward(c: Call, dy: Node, x: Node, weight: Node) -> list[Node]:
    grad, t = c.term(dy), c.term(x)
    above = t.test("gt", 0)
    return [above.where(grad, grad * c.term(weight)).node, above.where(_like(grad, 0), grad * t).node]


@overload(*both("elu"), runtime=["alpha", "scale", "input_scale"], floats=True)
def elu(c: Call, x: Node, alpha: Operand = 1, scale: Operand = 1, input_scale: Operand = 1) -> Node:
    t, right = c.term(x), c.term(scale)
    left = c.term(alpha) * right
    return t.test("lt", 0).where((t * c.term(input_scale)).map("expm1") * left, t * right).node


@overload("elu_backward", runtime=["alpha", "scale", "input_scale"], floats=True, literal=_negative)
def elu_backward(
    c: Call, dy: Node, alpha: Operand, scale: Operand, input_scale: Operand, is_result: bool, x: Node
) -> Node:
    grad, t, right, inner = c.term(dy), c.term(x), c.term(scale), c.term(input_scale)
    left = c.term(alpha) * right
    slope = t + left if is_result else (t * inner).map("exp") * left
    return t.test("le", 0).where(grad * inner * slope, grad * right).node


@overload(*both("silu"), floats=True)
def silu(c: Call, x: Node) -> Node:
    t = c.term(x)
    return (t * t.map("sigmoid")).node


@overload("silu_backward", floats=True)
def silu_backward(c: Call, dy: Node, x: Node) -> Node:
    t = c.term(x)
    s = t.map("sigmoid")
    return (c.term(dy) * s * (t * (1.0 - s) + 1.0)).node


@overload(*both("mish"), floats=True)
def mish(c: Call, x: Node) -> Node:
    t = c.term(x)
    return (t * t.map("exp").map("log1p").map("tanh")).node


@overload("mish_backward", floats=True)
def mish_backward(c: Call, dy: Node, x: Node) -> Node:
    t = c.term(x)
    bent = t.map("exp").map("log1p").map("tanh")
    return (c.term(dy) * (bent + t * t.map("sigmoid") * (1.0 - bent * bent))).node


@overload(*both("hardtanh"), runtime=["min_val", "max_val"])
def hardtanh(c: Call, x: Node, min_val: Operand = -1, max_val: Operand = 1) -> Node:
    return c.term(x).max(c.term(min_val)).min(c.term(max_val)).node


@overload("hardtanh_backward", runtime=["min_val", "max_val"], floats=True)
def hardtanh_backward(c: Call, dy: Node, x: Node, min_val: Operand, max_val: Operand) -> Node:
    grad, t = c.term(dy), c.term(x)
    flat = Term(c.b, c.b.binary("or", t.test("le", c.term(min_val)).node, t.test("ge", c.term(max_val)).node))
    return flat.where(_like(grad, 0), grad).node


@overload(*both("hardsigmoid"), floats=True)
def hardsigmoid(c: Call, x: Node) -> Node:
    return ((c.term(x) + 3.0).max(0.0).min(6.0) / 6.0).node


@overload("hardsigmoid_backward", floats=True)
def hardsigmoid_backward(c: Call, dy: Node, x: Node) -> Node:
    return _within(c.term(x), -3.0, 3.0).where(c.term(dy) * (1 / 6), 0.0).node


@overload(*both("hardswish"), floats=True)
def hardswish(c: Call, x: Node) -> Node:
    t = c.term(x)
    return (t * (t + 3.0).max(0.0).min(6.0) / 6.0).node


@overload("hardswish_backward", floats=True)
def hardswish_backward(c: Call, dy: Node, x: Node) -> Node:
    grad, t = c.term(dy), c.term(x)
    middle = t.test("lt", 3.0).where(grad * (t / 3.0 + 0.5), grad)
    return t.test("le", -3.0).where(_like(grad, 0), middle).node


@overload("softplus", runtime=["beta", "threshold"], floats=True)
def softplus(c: Call, x: Node, beta: Operand = 1, threshold: Operand = 20) -> Node:
    t, by = c.term(x), c.term(beta)
    scaled = t * by
    return scaled.test("gt", c.term(threshold)).where(t, scaled.map("exp").map("log1p") / by).node


@overload("softplus_backward", runtime=["beta", "threshold"], floats=True)
def softplus_backward(c: Call, dy: Node, x: Node, beta: Operand, threshold: Operand) -> Node:
    grad, scaled = c.term(dy), c.term(x) * c.term(beta)
    z = scaled.map("exp")
    return scaled.test("gt", c.term(threshold)).where(grad, grad * z / (z + 1.0)).node


@overload("log_sigmoid_forward", floats=True)
def log_sigmoid(c: Call, x: Node) -> list[Node]:
    """The logarithm, and exp(-|x|) for the gradient where the device keeps it."""
    t = c.term(x)
    z = (-t.map("abs")).map("exp")
    kept = c.results[1][0]
    return [(t.min(0.0) - z.map("log1p")).node, z.node if kept == x.shape else c.b.const(0, c.dtype, kept)]


@overload("log_sigmoid_backward", floats=True)
def log_sigmoid_backward(c: Call, dy: Node, x: Node, buffer: Node) -> Node:
    t = c.term(x)
    z = (-t.map("abs")).map("exp")
    below = t.test("lt", 0.0)
    part = z / (z + 1.0)
    return (c.term(dy) * below.where(1.0 - part, part)).node


def _halves(c: Call, x: Node, dim: int) -> tuple[Term, Term]:
    axis = dim % x.rank
    size = [n // 2 if k == axis else n for k, n in enumerate(x.shape) if isinstance(n, int)]
    second = [size[axis] if k == axis else 0 for k in range(x.rank)]
    return c.term(c.b.slice(x, [0] * x.rank, size)), c.term(c.b.slice(x, second, size))


@overload("glu", floats=True)
def glu(c: Call, x: Node, dim: int = -1) -> Node:
    value, gate = _halves(c, x, dim)
    return (value * gate.map("sigmoid")).node


@overload("glu_backward", floats=True, in_rows=True)
def glu_backward(c: Call, dy: Node, x: Node, dim: int) -> Node:
    value, gate = _halves(c, x, dim)
    grad, s = c.term(dy), gate.map("sigmoid")
    return c.b.concat([(grad * s).node, (grad * value * s * (1.0 - s)).node], dim % x.rank)


@overload("hardshrink", runtime=["lambd"], floats=True)
def hardshrink(c: Call, x: Node, lambd: Operand = 0.5) -> Node:
    t, far = c.term(x), c.term(lambd)
    return _within(t, -far, far, "ge", "le").where(_like(t, 0), t).node


@overload("softshrink", runtime=["lambd"], floats=True)
def softshrink(c: Call, x: Node, lambd: Operand = 0.5) -> Node:
    t, far = c.term(x), c.term(lambd)
    return t.test("gt", far).where(t - far, t.test("lt", -far).where(t + far, t * 0.0)).node


@overload("hardshrink_backward", "softshrink_backward", runtime=["lambd"], floats=True)
def shrink_backward(c: Call, dy: Node, x: Node, lambd: Operand) -> Node:
    grad, far = c.term(dy), c.term(lambd)
    return _within(c.term(x), -far, far, "ge", "le").where(_like(grad, 0), grad).node


@overload(*both("logit"), floats=True)
def logit(c: Call, x: Node, eps: float | None = None) -> Node:
    t = c.term(x)
    if eps is not None:
        t = t.max(eps).min(1.0 - eps)
    return (t / (1.0 - t)).map("log").node


@overload("logit_backward", floats=True)
def logit_backward(c: Call, dy: Node, x: Node, eps: float | None = None) -> Node:
    grad, t = c.term(dy), c.term(x)
    slope = grad / (t * (1.0 - t))
    if eps is None:
        return _within(t, 0.0, 1.0, "ge", "le").where(slope, math.nan).node
    return _within(t, eps, 1.0 - eps, "ge", "le").where(slope, 0.0).node
