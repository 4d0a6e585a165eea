"""NaN, infinities, zeros of both signs, huge numbers and tensors without elements: results and gradients as PyTorch's.

PyTorch's CPU has two kernels for many ops, one for whole vectors and one for what is left over, which do not always
agree on such numbers (the gradient of `relu6` at NaN): a result is right where it is that of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F
    from torch.testing._internal.common_methods_invocations import BinaryUfuncInfo, UnaryUfuncInfo, op_db

NUMBERS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e30, -1e30, 3.0, 100.0, -100.0]
SKIPPED = {
    **dict.fromkeys(("byte", "char", "short", "int", "long"), "C leaves open which integers NaN and huge numbers are"),
    **dict.fromkeys(("complex", "polar", "cdouble", "cfloat", "chalf"), "complex numbers run on the CPU"),
    **dict.fromkeys(("double", "half"), "float64 and float16 run on the CPU"),
    **dict.fromkeys(("jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref"), "for GPUs only"),
    **dict.fromkeys(("fill", "nn.functional.threshold", "nn.functional.prelu"), "they want more arguments"),
    "frexp": "it has two results",
    "logit": "the CPU's gradient at -0.0 is inf; that of log(x / (1 - x)) is -inf",
}  # fmt: skip
ZEROS_OF_EITHER_SIGN = ("fmax", "fmin", "nn.functional.relu", "nn.functional.relu6", "nn.functional.softshrink")
"""PyTorch's CPU kernels for vectors and for single numbers, and those of its GPUs, give zeros of different signs."""


def _ops(kind: Any) -> list[Any]:
    ops = [op for op in op_db if isinstance(op, kind) and op.name not in SKIPPED and not op.variant_test_name]
    return [op for op in ops if torch.float32 in op.dtypes]


def _parts(family: str) -> list[Any]:
    """Ops of one operand or two, some ten to a test: they are one program."""
    kind, number = family.split()
    ops = _ops(UnaryUfuncInfo if kind == "unary" else BinaryUfuncInfo)
    return ops[int(number) :: 4]


def _given(count: int) -> list[torch.Tensor]:
    v = torch.tensor(NUMBERS)
    return [v] if count == 1 else [v.repeat_interleave(len(v)), v.repeat(len(v))]


def _made(op: Any, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The result, and the gradients of its sum."""
    xs = [x.detach().requires_grad_(op.supports_autograd) for x in given]
    y = op.op(*xs)
    grads = torch.autograd.grad(y.sum(), xs, allow_unused=True) if y.requires_grad else ()
    return [y.detach(), *(g for g in grads if g is not None)]


def _alone(op: Any, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same, of one number after the other."""
    each = [_made(op, [x[k : k + 1] for x in given]) for k in range(len(given[0]))]
    return [torch.cat(parts) for parts in zip(*each, strict=True)]


def _equal(a: torch.Tensor, b: torch.Tensor, signs: bool) -> torch.Tensor:
    if not b.is_floating_point():
        return a == b
    near = torch.isclose(a, b, rtol=2e-5, atol=1e-6, equal_nan=True)
    return near & ~(signs & (a == 0) & (b == 0) & (a.signbit() != b.signbit()))


@on_device(*(f"{kind} {part}" for kind in ("unary", "binary") for part in range(4)), modes=("lazy",))
def test_ops_of_numbers_and_their_gradients(family: str) -> None:
    ops = _parts(family)
    given = _given(1 if family.startswith("unary") else 2)
    there = [x.to("hpu") for x in given]
    ours = [_made(op, there) for op in ops]
    wrong = []
    for op, results in zip(ops, ours, strict=True):
        vectors, singles = _made(op, given), _alone(op, given)
        assert len(results) == len(vectors), op.name
        for k, (got, one, other) in enumerate(zip(results, vectors, singles, strict=True)):
            got, signs = got.cpu(), op.name not in ZEROS_OF_EITHER_SIGN
            assert got.dtype is one.dtype and got.shape == one.shape, op.name
            bad = (~_equal(got, one, signs) & ~_equal(got, other, signs)).nonzero().flatten().tolist()
            wrong += [f"{op.name} {k} of {[x[n].item() for x in given]}: {got[n]}, not {one[n]}" for n in bad[:3]]
    assert not wrong, "\n".join(wrong)


def _along(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(torch, name)(x, dim=-1)


ALONG = ("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "cumsum", "cumprod", "logcumsumexp", "cummax",
         "cummin", "softmax", "log_softmax", "logsumexp", "sort", "argsort", "prod", "var", "std", "any", "all", "norm",
         "nansum", "nanmean", "aminmax", "count_nonzero")  # fmt: skip
"""Functions along the last axis."""
OTHERS: dict[str, Callable[[Any], Any]] = {
    "topk": lambda x: torch.topk(x, min(2, x.shape[-1]))[0],  # places of equal numbers are left open
    "clamp": lambda x: [x.clamp(-1, 2), x.clamp(min=float("nan")), x.clamp(max=-float("inf"))],
    "nan_to_num": lambda x: [x.nan_to_num(), x.nan_to_num(1.0, 2.0, 3.0)],
    "where": lambda x: torch.where(x > 0, x, -x),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "matmul": lambda x: x @ x.mT,
    "cat": lambda x: torch.cat([x, -x], -1),
    "isin": lambda x: torch.isin(x, x.new_tensor([0.0, float("nan"), float("inf")])),
    "diff and flip": lambda x: [torch.diff(x), x.flip(-1)],
    "index": lambda x: x[..., :0],
    "max_pool": lambda x: F.max_pool1d(x.reshape(1, 2, -1), 2),
    "avg_pool": lambda x: F.avg_pool1d(x.reshape(1, 2, -1), 2),
    "losses": lambda x: [F.mse_loss(x, x.flip(-1)), F.smooth_l1_loss(x, x.flip(-1)), F.l1_loss(x, -x)],
    "unique comparisons": lambda x: [x == x, x != x.flip(-1), torch.equal(x, x), torch.maximum(x, x.flip(-1))],
}
ROWS = {
    "nan": [[float("nan"), 1.0, 2.0, -3.0], [0.0, -0.0, 0.0, float("nan")]],
    "infinities": [[float("inf"), 1.0, 2.0, -3.0], [-float("inf"), float("inf"), 0.0, 1.0]],
    "minus infinity": [[-float("inf")] * 4, [1.0, -float("inf"), -float("inf"), 2.0]],
    "large": [[1e18, 1e18, -1e18, 1.0], [-0.0, -0.0, -0.0, -0.0]],
    "no columns": [[], []],
    "no rows": "0 4",
    "a number": 2.5,
}  # fmt: skip


def _rows(kind: str) -> torch.Tensor:
    rows = ROWS[kind]
    return torch.empty(*map(int, rows.split())) if isinstance(rows, str) else torch.tensor(rows)


def _results(made: Any) -> list[Any]:
    found = list(made) if isinstance(made, (tuple, list)) else [made]
    return [x.detach().cpu() if isinstance(x, torch.Tensor) else x for x in found]


def _or_error(call: Callable[[Any], Any], x: torch.Tensor) -> list[Any] | str:
    """What a function gives, or that it raises: an error here has to be one there."""
    try:
        return _results(call(x))
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error).__name__


@on_device(*ROWS)
def test_functions_of_rows(kind: str) -> None:
    x = _rows(kind)
    wrong = []
    for name in (*ALONG, *OTHERS):
        call = OTHERS.get(name) or _along(name)
        want, got = _or_error(call, x), _or_error(call, x.to("hpu"))
        if isinstance(want, str) or isinstance(got, str):
            if want != got:
                wrong.append(f"{name}: {got}, not {want}")
            continue
        for a, b in zip(got, want, strict=True):
            try:
                torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-6, equal_nan=True)
            except AssertionError:
                wrong.append(f"{name}: {a}, not {b}")
    assert not wrong, "\n".join(wrong)
