"""Optimizer steps: each rule is the formula of TensorFlow's training_ops kernel, written once.

A rule takes the present values of its slots, the scalars and the gradient, and gives the new values of the
slots in order. `@rule` makes two rows of it: ResourceApply<name> over whole variables, and where TensorFlow has
it ResourceSparseApply<name>, which gathers the rows in `indices`, steps them, and scatters them back.

The sparse form expects every index once, as Keras gives them; of a repeated index the last step stays, and an
index out of range is ignored. bfloat16 is computed in float32 and rounded once per new value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Shape
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, INDEX, op


class UpdateStep:
    """What a rule reads: operands by OpDef name, in float32, as formulas (`s.grad * s.lr`); boolean attributes."""

    def __init__(self, c: Lowering, rows: Callable[[Node], Node], slots: Sequence[str], sparse: bool) -> None:
        self._c, self._rows, self._slots, self.sparse = c, rows, slots, sparse

    def __getattr__(self, name: str) -> Term:
        node = self._c.input(name)
        return Term(self._c.b, self._c.b.cast(self._rows(node) if name in self._slots else node, DType.F32))

    @property
    def gradient(self) -> Term:
        """Of an op that calls it `delta` or `grad`."""
        return getattr(self, "delta" if "delta" in self._c.arg_slices else "grad")

    def flag(self, name: str) -> bool:
        return bool(self._c.attr(name, False))


GRADIENTS = ("grad", "delta")

UpdateRule = Callable[[UpdateStep], Sequence[Term]]


def _fits(have: Shape, wanted: Shape) -> bool:
    """False for shapes that surely differ; extents known at run time only are taken to be what they should be."""
    pairs = zip(have, wanted, strict=False)
    return len(have) == len(wanted) and all(m == n for m, n in pairs if isinstance(m, int) and isinstance(n, int))


def _check(c: Lowering, slots: Sequence[str]) -> None:
    """Slots and gradient have the shape of the first slot, everything else is a scalar. With indices, a vector, the
    gradient is the rows that they name."""
    whole = of_gradient = c.input(slots[0]).shape
    words = f"have the shape of {slots[0]}"
    of_gradient_in_words = words
    if "indices" in c.arg_slices:
        indices = c.input("indices")
        c.require(indices.rank == 1 and whole, f"indices must be a vector, and {slots[0]} at least one")
        of_gradient = (*indices.shape, *whole[1:])
        of_gradient_in_words = f"have a row of {slots[0]} for each of the indices"
    wanted = {**dict.fromkeys(slots, (whole, words)), **dict.fromkeys(GRADIENTS, (of_gradient, of_gradient_in_words))}
    for name in c.arg_slices:
        shape, what = wanted.get(name, ((), "be a scalar"))
        c.require(name == "indices" or _fits(c.input(name).shape, shape), f"{name} must {what}")


def rule(name: str, *slots: str, sparse: bool = False) -> Callable[[UpdateRule], UpdateRule]:
    """Rows for a rule over the variables `slots`; a slot that the rule gives no new value for stays as it is."""

    def lowering(step: UpdateRule, sparse: bool) -> Callable[[Lowering], Sequence[Node]]:
        def lower(c: Lowering) -> Sequence[Node]:
            _check(c, slots)
            if not sparse:
                values = step(UpdateStep(c, lambda n: n, slots, sparse))
                return [v.done(c.input(slot).dtype) for v, slot in zip(values, slots, strict=True)]
            indices = c.input("indices")
            c.context.in_range("indices", indices, c.input(slots[0]).shape[0])
            values = step(UpdateStep(c, lambda n: c.b.gather(n, [indices], [0]), slots, sparse))
            return [
                c.b.scatter(c.input(slot), v.done(c.input(slot).dtype), [indices], [0], "set")
                for v, slot in zip(values, slots, strict=True)
            ]

        return lower

    def add(step: UpdateRule) -> UpdateRule:
        op(f"ResourceApply{name}", T=FLOATS, updates=slots)(lowering(step, False))
        if sparse:
            op(f"ResourceSparseApply{name}", T=FLOATS, Tindices=INDEX, updates=slots)(lowering(step, True))
        return step

    return add


def _shrunk(s: UpdateStep, candidate: Term, rate: Term) -> Term:
    """The proximal operator of l1 and l2: towards zero by rate * l1, then divided by 1 + rate * l2."""
    kept = (candidate.map("abs") - rate * s.l1).max(0.0)
    return candidate.map("sign") * kept / (rate * s.l2 + 1.0)


rule("GradientDescent", "var")(lambda s: [s.var - s.gradient * s.alpha])
rule("ProximalGradientDescent", "var", sparse=True)(lambda s: [_shrunk(s, s.var - s.gradient * s.alpha, s.alpha)])


@rule("Momentum", "var", "accum", sparse=True)
def momentum(s: UpdateStep) -> Sequence[Term]:
    accum = s.accum * s.momentum + s.grad
    if s.flag("use_nesterov"):
        return [s.var - (s.grad * s.lr + accum * s.momentum * s.lr), accum]
    return [s.var - accum * s.lr, accum]


@rule("KerasMomentum", "var", "accum", sparse=True)
def keras_momentum(s: UpdateStep) -> Sequence[Term]:
    accum = s.accum * s.momentum - s.grad * s.lr
    if s.flag("use_nesterov"):
        return [s.var + (accum * s.momentum - s.grad * s.lr), accum]
    return [s.var + accum, accum]


def _moments(s: UpdateStep) -> tuple[Term, Term]:
    grad = s.grad
    return s.m + (grad - s.m) * (1.0 - s.beta1), s.v + (grad * grad - s.v) * (1.0 - s.beta2)


def _greater(old: Term, new: Term) -> Term:
    """The greater of two, and the old one where either is NaN."""
    return new.test("gt", old).where(new, old)


def _adam_rate(s: UpdateStep) -> Term:
    return s.lr * (1.0 - s.beta2_power).map("sqrt") / (1.0 - s.beta1_power)


@rule("Adam", "var", "m", "v")
def adam(s: UpdateStep) -> Sequence[Term]:
    m, v = _moments(s)
    step = s.grad * (1.0 - s.beta1) + s.beta1 * m if s.flag("use_nesterov") else m
    return [s.var - step * _adam_rate(s) / (v.map("sqrt") + s.epsilon), m, v]


@rule("AdamWithAmsgrad", "var", "m", "v", "vhat")
def adam_with_amsgrad(s: UpdateStep) -> Sequence[Term]:
    m, v = _moments(s)
    vhat = _greater(s.vhat, v)
    return [s.var - m * _adam_rate(s) / (vhat.map("sqrt") + s.epsilon), m, v, vhat]


@rule("AdaMax", "var", "m", "v")
def adamax(s: UpdateStep) -> Sequence[Term]:
    m = s.m + (s.grad - s.m) * (1.0 - s.beta1)
    v = _greater(s.v * s.beta2, s.grad.map("abs"))
    return [s.var - s.lr / (1.0 - s.beta1_power) * (m / (v + s.epsilon)), m, v]


def _squares(s: UpdateStep) -> Term:
    """Adagrad's accumulator after this step."""
    return s.accum + s.grad * s.grad if s.flag("update_slots") else s.accum


@rule("Adagrad", "var", "accum", sparse=True)
def adagrad(s: UpdateStep) -> Sequence[Term]:
    accum = _squares(s)
    return [s.var - s.grad * s.lr * accum.map("rsqrt"), accum]


@rule("AdagradV2", "var", "accum", sparse=True)
def adagrad_v2(s: UpdateStep) -> Sequence[Term]:
    accum = _squares(s)
    return [s.var - s.grad * s.lr / (accum.map("sqrt") + s.epsilon), accum]


@rule("ProximalAdagrad", "var", "accum", sparse=True)
def proximal_adagrad(s: UpdateStep) -> Sequence[Term]:
    accum = s.accum + s.grad * s.grad
    rate = s.lr * accum.map("rsqrt")
    return [_shrunk(s, s.var - s.grad * rate, rate), accum]


@rule("AdagradDA", "var", "gradient_accumulator", "gradient_squared_accumulator", sparse=True)
def adagrad_dual_averaging(s: UpdateStep) -> Sequence[Term]:
    total = s.gradient_accumulator + s.grad
    squares = s.gradient_squared_accumulator + s.grad * s.grad
    kept = total.map("sign") * (total.map("abs") - s.l1 * s.global_step).max(0.0)
    return [-(s.lr * kept) / (s.l2 * s.global_step * s.lr + squares.map("sqrt")), total, squares]


@rule("Adadelta", "var", "accum", "accum_update", sparse=True)
def adadelta(s: UpdateStep) -> Sequence[Term]:
    accum = s.accum * s.rho + s.grad * s.grad * (1.0 - s.rho)
    update = (s.accum_update + s.epsilon).map("sqrt") * (accum + s.epsilon).map("rsqrt") * s.grad
    return [s.var - update * s.lr, accum, s.accum_update * s.rho + update * update * (1.0 - s.rho)]


def _average(s: UpdateStep, old: Term, new: Term) -> Term:
    """A moving average as TensorFlow's kernels write it: for single rows in another way, with other infinities."""
    return old * s.rho + new * (1.0 - s.rho) if s.sparse else old + (new - old) * (1.0 - s.rho)


def _root_mean_square(s: UpdateStep, centred: bool) -> Sequence[Term]:
    ms = _average(s, s.ms, s.grad * s.grad)
    mg = [_average(s, s.mg, s.grad)] if centred else []
    spread = ms - mg[0] * mg[0] if mg else ms
    mom = s.mom * s.momentum + s.grad * s.lr / (spread + s.epsilon).map("sqrt")
    return [s.var - mom, *mg, ms, mom]


rule("RMSProp", "var", "ms", "mom", sparse=True)(lambda s: _root_mean_square(s, False))
rule("CenteredRMSProp", "var", "mg", "ms", "mom", sparse=True)(lambda s: _root_mean_square(s, True))


def _ftrl(s: UpdateStep, grad: Term) -> Sequence[Term]:
    """`grad` is the gradient with L2 shrinkage; the accumulator takes the plain one.

    With multiply_linear_by_lr the `linear` slot holds lr times what it holds otherwise.
    """
    scaled = s.flag("multiply_linear_by_lr")
    accum = s.accum + s.grad * s.grad
    root, old_root = accum.pow(-s.lr_power), s.accum.pow(-s.lr_power)
    if scaled:
        linear = s.linear + grad * s.lr - (root - old_root) * s.var
        quadratic, bound = root + s.l2 * s.lr * 2.0, s.l1 * s.lr
    else:
        linear = s.linear + grad - (root - old_root) / s.lr * s.var
        quadratic, bound = root / s.lr + s.l2 * 2.0, s.l1
    if s.sparse:  # TensorFlow limits the linear part, which keeps NaN
        low, high = -bound, linear.test("gt", bound).where(bound, linear)
        return [(low.test("gt", high).where(low, high) - linear) / quadratic, accum, linear]
    pull = bound * linear.map("sign") - linear
    return [linear.map("abs").test("gt", bound).where(pull / quadratic, 0.0), accum, linear]


rule("Ftrl", "var", "accum", "linear", sparse=True)(lambda s: _ftrl(s, s.grad))
rule("FtrlV2", "var", "accum", "linear", sparse=True)(lambda s: _ftrl(s, s.grad + s.l2_shrinkage * s.var * 2.0))


def _by_sign(s: UpdateStep, factor: Callable[[Term], Term]) -> Sequence[Term]:
    """factor: of the gradient, from whether its sign and that of its average agree: 1, or -1."""
    m = s.m * s.beta + s.grad * (1.0 - s.beta)
    return [s.var - s.lr * factor(s.grad.map("sign") * m.map("sign")) * s.grad, m]


rule("AddSign", "var", "m")(lambda s: _by_sign(s, lambda agreement: s.alpha + s.sign_decay * agreement))
rule("PowerSign", "var", "m")(
    lambda s: _by_sign(s, lambda agreement: (s.logbase * s.sign_decay * agreement).map("exp"))
)
