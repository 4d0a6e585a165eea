"""PyTorch's own samples of its ops (OpInfo), run on the device and on the CPU.

Per sample: the result, gradients of all tensors, the in-place and the out form, operands that are not contiguous. A
result is right where it is as near to float64 as the CPU's own kernel, twice over, or within PyTorch's tolerances.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from habana_tf.resolver import placements

OPS = {f"{op.name} {op.variant_test_name}".strip(): op for op in op_db}
TOLERANCES = {torch.float32: (1.3e-6, 1e-5), torch.bfloat16: (1.6e-2, 1e-2)}
"""Relative and absolute, as in `torch.testing`; the absolute one of bfloat16 is that of OpInfo's tests."""


@dataclass
class Outcome:
    """Of some ops. ops: those that were called. ran: how many calls were compared, by form, and under "gradients" how
    many of them with gradients. refused: calls that the CPU has no result for; left: calls of which the CPU did a part.
    failures: what was wrong."""

    ops: int = 0
    ran: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    left: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.ops += other.ops
        self.ran += other.ran
        self.refused += other.refused
        self.left += other.left
        self.failures += other.failures


_RANDOM = "other random numbers than the CPU's"
_SPARSE = "sparse tensors are not on the device"
_TIES = "equal numbers, whose order PyTorch leaves open"
_PINNED = "tensors go to pinned memory, which is no memory of the CPU's own"
_DEVICE = "PyTorch asks for the device cpu, cuda or xpu by name"
SKIPPED: dict[str, str] = {
    **dict.fromkeys((
        "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
        "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
        "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout with_train", "nn.functional.feature_alpha_dropout without_train",
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "normal",
        "normal in_place", "normal number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "uniform", "nn.functional.multi_head_attention_forward",
    ), _RANDOM),
    **dict.fromkeys(("sparse.mm reduce", "sparse.sampled_addmm", "to_sparse"), _SPARSE),
    "to": _PINNED,
    "tensor_split": "PyTorch wants its indices on the CPU, for any device",
    "mode out": _DEVICE,
    "_native_batch_norm_legit": "as native_batch_norm",
    "native_batch_norm": "the statistics have the shapes and types of the GPU's kernel, which differ from the CPU's",
    "native_layer_norm": "the statistics have the type of the GPU's kernel, which differs from the CPU's in bfloat16",
    "fft.ihfftn out": "PyTorch never writes the result where one axis is transformed, on the CPU either",
    "chalf": "the CPU cannot compare such numbers",
}  # fmt: skip
"""By op, or by op and form (`mode out`): why it is not compared. Dropout within other ops is left out, too."""
TIED = ("argsort", "msort", "sort", "topk")
"""Ops of which bfloat16 and integers give places of equal numbers."""


def skipped(name: str, dtype: torch.dtype) -> str:
    """Why an op is not compared in a type that it takes; empty where it is."""
    return SKIPPED.get(name, _TIES if dtype is not torch.float32 and name in TIED else "")


def named(part: int = 0, parts: int = 1, dtype: torch.dtype = torch.float32) -> list[str]:
    """One of `parts` parts of the ops that take a type, skipped ones too."""
    return [name for name in sorted(OPS)[part::parts] if dtype in OPS[name].supported_dtypes("cpu")]


@contextlib.contextmanager
def _scores_of_bfloat16() -> Iterator[None]:
    """PyTorch's formula of attention with products of bfloat16, which it has a switch for: the device always does so.
    Its CPU kernel keeps scores in float32, and where they are large, rounding moves the weights by much."""
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


REFERENCES = {"nn.functional.scaled_dot_product_attention": _scores_of_bfloat16}
"""In which of its own ways PyTorch's CPU is asked in bfloat16, where there are several."""


def to(value: Any, device: str) -> Any:
    """Copies of all tensors of a structure, on a device."""

    def moved(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return torch.device(device) if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu") else x
        # the strides stay: a copy of the storage, and the same view of it
        with torch.no_grad():
            flat = x.detach().as_strided((_span(x),), (1,), x.storage_offset()).clone().to(device)
            made = flat.as_strided(x.shape, x.stride(), 0)
        return made.requires_grad_(x.requires_grad)

    return tree_map(moved, value)


def _span(x: torch.Tensor) -> int:
    return 0 if 0 in x.shape else 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))


def widened(value: Any) -> Any:
    """Floating-point tensors in float64."""
    return tree_map(
        lambda x: x.detach().double().requires_grad_(x.requires_grad)
        if isinstance(x, torch.Tensor) and x.is_floating_point() else x, value,
    )  # fmt: skip


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a structure."""
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


Made = tuple[list[torch.Tensor], list[torch.Tensor]]
"""Results and gradients of a call."""


def with_gradients(call: Callable[..., Any], args: Any, kwargs: Any) -> Made:
    """Results, and gradients of what wants some."""
    made = tensors(call(*args, **kwargs))
    wanted = [t for t in made if t.requires_grad and t.is_floating_point()]
    leaves = [t for t in tensors((args, kwargs)) if t.requires_grad and t.is_leaf]
    found = [t.detach() for t in made]
    gradients: Sequence[torch.Tensor | None] = ()
    if wanted and leaves:
        generator = torch.Generator().manual_seed(1)
        seeds = [torch.randn(t.shape, generator=generator).to(torch.bfloat16).to(t.dtype).to(t.device) for t in wanted]
        gradients = torch.autograd.grad(wanted, leaves, seeds, allow_unused=True)
    return found, [g for g in gradients if g is not None]


def wrong(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor | None) -> str:
    """Why a result is wrong; empty where it is right."""
    if got.dtype is not want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    if want.is_complex():
        parts = (torch.view_as_real(t.resolve_conj().to(torch.complex128)) for t in (got, want))
        return "" if torch.allclose(*parts, 1e-5, 1e-5, equal_nan=True) else "complex numbers differ"
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else f"{got.flatten()[:6].tolist()}, not {want.flatten()[:6].tolist()}"
    relative, absolute = TOLERANCES.get(want.dtype, (1e-7, 1e-7))
    if torch.allclose(got.double(), want.double(), relative, absolute, equal_nan=True):
        return ""
    if exact is not None and exact.is_floating_point() and exact.shape == want.shape:
        there, ours, theirs = exact.double(), got.double(), want.double()
        finite = there.isfinite() & ours.isfinite() & theirs.isfinite()
        unlike = ~finite & ~torch.isclose(ours, theirs, equal_nan=True)
        far = (theirs - there).abs()[finite]
        room = 2 * far.max() if far.numel() else 0.0
        size = there.abs()[finite]
        if not unlike.any() and ((ours - there).abs()[finite] <= room + size * 2 * relative + absolute).all():
            return ""
    away = (got.double() - want.double()).abs()
    place = int(away.nan_to_num(float("inf")).argmax())
    return f"{away.max()} away: {got.flatten()[place]} for {want.flatten()[place]}"


def unlike(got: Made, want: Made, exact: Made | None) -> str:
    """Where results or gradients differ; empty where none does."""
    for what, ours, theirs, true in zip(("result", "gradient"), got, want, exact or ([], []), strict=True):
        if len(ours) != len(theirs):
            return f"{len(ours)} {what}s, not {len(theirs)}"
        known = true if len(true) == len(theirs) else [None] * len(theirs)
        for k, parts in enumerate(zip(ours, theirs, known, strict=True)):
            if why := wrong(*parts):
                return f"{what} {k}: {why}"
    return ""


def _samples(op: Any, dtype: torch.dtype, every: int, most: int) -> Iterator[Any]:
    grad = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    kept = [s for s in found if not s.kwargs.get("dropout_p")]
    yield from kept[::every][:most]


def some(part: int, parts: int, dtype: torch.dtype, most: int, ops: Sequence[str] = ()) -> Outcome:
    """Runs one of `parts` parts of all ops, or of those that are named."""
    total = Outcome()
    for name in named(part, parts, dtype):
        if skipped(name, dtype) or ops and name not in ops:
            continue
        made = run(name, dtype, most=most)
        made.failures = [f"{name} {each}" for each in made.failures]
        total.add(made)
    return total


def run(name: str, dtype: torch.dtype, every: int = 1, most: int = 1000) -> Outcome:
    """Runs the samples of an op in a type: every so many of them, and so many at most."""
    op, outcome = OPS[name], Outcome(ops=1)
    warnings.simplefilter("ignore")
    asked = REFERENCES.get(name) if dtype is torch.bfloat16 else None
    for k, sample in enumerate(_samples(op, dtype, every, most)):
        for label, call, args, kwargs in _forms(op, sample, k):
            if f"{name} {label}" in SKIPPED:
                continue
            with asked() if asked is not None else contextlib.nullcontext():
                _one(outcome, label, f"{k} {label} {_shown(args, kwargs)}", call, args, kwargs)
    return outcome


def _shown(args: Any, kwargs: Any) -> str:
    text = tree_map(lambda x: f"{tuple(x.shape)}" if isinstance(x, torch.Tensor) else x, (args, kwargs))
    return str(text)[:160]


def _forms(op: Any, sample: Any, k: int) -> Iterator[tuple[str, Any, Any, Any]]:
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    yield "forward", op.op, args, kwargs
    if op.inplace_variant is not None and not sample.broadcasts_input:
        given = args, kwargs
        if not op.supports_inplace_autograd:
            given = tree_map(_detached, given)
        yield "in place", functools.partial(_in_place, op.inplace_variant), *given
    if k % 3 == 0:
        other = sample.noncontiguous()
        yield "strided", op.op, (other.input, *other.args), other.kwargs
    if op.supports_out and k % 4 == 0:
        yield "out", functools.partial(_out, op.op), *tree_map(_detached, (args, kwargs))


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, torch.Tensor) else x


def _in_place(call: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    copied = x.clone()
    made = call(copied, *args, **kwargs)
    return made, copied


def _out(call: Any, *args: Any, **kwargs: Any) -> Any:
    out = tree_map(lambda x: torch.empty_like(x) if isinstance(x, torch.Tensor) else x, call(*args, **kwargs))
    call(*args, **kwargs, out=out)
    return out


def _one(outcome: Outcome, form: str, label: str, call: Any, args: Any, kwargs: Any) -> None:
    def on(device: str, change: Callable[[Any], Any] = lambda x: x) -> Made:
        made = with_gradients(call, to(change(args), device), to(change(kwargs), device))
        elsewhere = {t.device.type for part in made for t in part} - {device}
        if elsewhere:
            raise AssertionError(f"a result is on {elsewhere}, not on {device}")
        return [t.cpu() for t in made[0]], [t.cpu() for t in made[1]]

    try:
        want = on("cpu")
    except Exception:  # of any kind: there is nothing to compare with
        outcome.refused += 1
        return
    try:
        exact = on("cpu", widened)
    except Exception:  # of any kind: only the CPU's own result says what is right
        exact = None
    before = _left_to_cpu()
    outcome.ran[form] += 1
    outcome.ran["gradients"] += bool(want[1])
    try:
        why = unlike(on("hpu"), want, exact)
    except Exception as error:
        why = f"{type(error).__name__}: {str(error)[:300]}"
    outcome.left += _left_to_cpu() > before
    if why:
        outcome.failures.append(f"{label}: {why}")


def _left_to_cpu() -> int:
    """How many ops ran on the CPU so far."""
    return sum(each.count for each in placements.placements().cpu)
