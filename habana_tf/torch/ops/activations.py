"""Activations and their gradients."""

from __future__ import annotations

import math

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, both, formula, overload

overload(*both("relu"))(lambda c, x: c.elementwise("max", x, 0))
formula("threshold_backward", runtime=["threshold"], literal=lambda n: n == 0)(
    lambda dy, x, threshold: x.test("le", threshold).where(0, dy)
)
formula(*both("threshold"), runtime=["threshold", "value"])(
    lambda x, threshold, value: x.test("le", threshold).where(value, x)
)
formula("sigmoid_backward")(lambda dy, y: dy * (1 - y) * y)
formula("tanh_backward")(lambda dy, y: dy * (1 - y * y))


@formula("gelu")
def gelu(x: Term, approximate: str = "none") -> Term:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (inner.tanh() + 1)
    return x * 0.5 * ((x * math.sqrt(0.5)).map("erf") + 1)


@formula("gelu_backward")
def gelu_backward(dy: Term, x: Term, approximate: str = "none") -> Term:
    if approximate == "tanh":
        beta = math.sqrt(2 / math.pi)
        bent = ((x + x * x * x * 0.044715) * beta).tanh()
        slope = (1 - bent * bent) * beta * (x * x * (3 * 0.044715) + 1)
        return dy * ((bent + 1) * 0.5 + x * 0.5 * slope)
    below = ((x * math.sqrt(0.5)).map("erf") + 1) * 0.5
    density = (x * x * -0.5).map("exp") * (1 / math.sqrt(2 * math.pi))
    return dy * (below + x * density)


def _negative(n: float) -> bool:
    """Of an activation in place no gradient can be told from its result then: PyTorch refuses such a number."""
    return n < 0


formula(*both("leaky_relu"), runtime=["negative_slope"])(
    lambda x, negative_slope=0.01: x.test("gt", 0).where(x, x * negative_slope)
)
formula("leaky_relu_backward", runtime=["negative_slope"], literal=_negative)(
    lambda dy, x, negative_slope, self_is_result: x.test("gt", 0).where(dy, dy * negative_slope)
)
formula("_prelu_kernel")(lambda x, weight: x.test("gt", 0).where(x, x * weight))
formula("_prelu_kernel_backward")(
    lambda dy, x, weight: [x.test("gt", 0).where(dy, dy * weight), x.test("gt", 0).where(0, dy * x)]
)


@formula(*both("elu"), runtime=["alpha", "scale", "input_scale"])
def elu(x: Term, alpha: Term | float = 1, scale: Term | float = 1, input_scale: Term | float = 1) -> Term:
    return x.test("lt", 0).where((x * input_scale).map("expm1") * (alpha * scale), x * scale)


@formula("elu_backward", runtime=["alpha", "scale", "input_scale"], literal=_negative)
def elu_backward(dy: Term, alpha: Term, scale: Term, input_scale: Term, is_result: bool, x: Term) -> Term:
    left = alpha * scale
    slope = x + left if is_result else (x * input_scale).map("exp") * left
    return x.test("le", 0).where(dy * input_scale * slope, dy * scale)


def _silu_backward(dy: Term, x: Term) -> Term:
    s = x.sigmoid()
    return dy * s * (x * (1 - s) + 1)


def _mish_backward(dy: Term, x: Term) -> Term:
    bent = x.map("exp").map("log1p").tanh()
    return dy * (bent + x * x.sigmoid() * (1 - bent * bent))


formula(*both("silu"))(lambda x: x * x.sigmoid())
formula("silu_backward")(_silu_backward)
formula(*both("mish"))(lambda x: x * x.map("exp").map("log1p").tanh())
formula("mish_backward")(_mish_backward)


def _between(x: Term, low: Term | float, high: Term | float) -> Term:
    """Whether low <= x <= high."""
    return x.test("ge", low).test("and", x.test("le", high))


formula(*both("hardtanh"), runtime=["min_val", "max_val"], floats=False)(
    lambda x, min_val=-1, max_val=1: x.max(min_val).min(max_val)
)
formula("hardtanh_backward", runtime=["min_val", "max_val"])(
    lambda dy, x, min_val, max_val: x.test("le", min_val).test("or", x.test("ge", max_val)).where(0, dy)
)
formula(*both("hardsigmoid"))(lambda x: (x + 3).max(0).min(6) / 6)
formula("hardsigmoid_backward")(lambda dy, x: x.test("gt", -3).test("and", x.test("lt", 3)).where(dy * (1 / 6), 0))
formula(*both("hardswish"))(lambda x: x * (x + 3).max(0).min(6) / 6)
formula("hardswish_backward")(lambda dy, x: x.test("le", -3).where(0, x.test("lt", 3).where(dy * (x / 3 + 0.5), dy)))
formula("hardshrink", runtime=["lambd"])(lambda x, lambd=0.5: _between(x, -lambd, lambd).where(0, x))
formula("softshrink", runtime=["lambd"])(
    lambda x, lambd=0.5: x.test("gt", lambd).where(x - lambd, x.test("lt", -lambd).where(x + lambd, x * 0))
)
formula("hardshrink_backward", "softshrink_backward", runtime=["lambd"])(
    lambda dy, x, lambd: _between(x, -lambd, lambd).where(0, dy)
)


@formula("softplus", runtime=["beta", "threshold"])
def softplus(x: Term, beta: Term | float = 1, threshold: Term | float = 20) -> Term:
    scaled = x * beta
    return scaled.test("gt", threshold).where(x, scaled.map("exp").map("log1p") / beta)


@formula("softplus_backward", runtime=["beta", "threshold"])
def softplus_backward(dy: Term, x: Term, beta: Term, threshold: Term) -> Term:
    z = (x * beta).map("exp")
    return (x * beta).test("gt", threshold).where(dy, dy * z / (z + 1))


@overload("log_sigmoid_forward", floats=True)
def log_sigmoid(c: Call, x: Node) -> list[Node]:
    """The logarithm, and exp(-|x|) for the gradient where the device keeps it."""
    t = c.term(x)
    z = (-t.map("abs")).map("exp")
    kept = c.results[1][0]
    return [(t.min(0) - z.map("log1p")).node, z.node if kept == x.shape else c.b.const(0, c.dtype, kept)]


@formula("log_sigmoid_backward")
def log_sigmoid_backward(dy: Term, x: Term, buffer: Term) -> Term:
    z = (-x.map("abs")).map("exp")
    part = z / (z + 1)
    return dy * x.test("lt", 0).where(1 - part, part)


@formula("glu")
def glu(x: Term, dim: int = -1) -> Term:
    value, gate = x.chunk(2, dim)
    return value * gate.sigmoid()


@formula("glu_backward", in_rows=True)
def glu_backward(dy: Term, x: Term, dim: int) -> Term:
    value, gate = x.chunk(2, dim)
    s = gate.sigmoid()
    return Term(x.b, x.b.concat([(dy * s).node, (dy * value * s * (1 - s)).node], dim % x.node.rank))


@formula(*both("logit"))
def logit(x: Term, eps: float | None = None) -> Term:
    inside = x if eps is None else x.max(eps).min(1 - eps)
    return (inside / (1 - inside)).map("log")


@formula("logit_backward")
def logit_backward(dy: Term, x: Term, eps: float | None = None) -> Term:
    """Outside of the clamped range 0; without one NaN outside of [0, 1]."""
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
    return _between(x, low, high).where(dy / (x * (1 - x)), outside)
