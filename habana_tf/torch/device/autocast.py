"""torch.autocast("hpu"): casts the arguments of overloads that are on its lists, to bf16, to fp32, or to the widest
type.

While autocast is on, PyTorch asks the dispatch key AutocastPrivateUse1 before an op of the device runs. An op that is
on a list has a kernel there, which casts its tensors and calls the op again without the key; others pass through.

The lists are those of Habana's bridge. `PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST` and `PT_HPU_AUTOCAST_FP32_OPS_LIST`
name files that replace the first two of them, one op a line, read when the device is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import torch

from habana_tf.settings import PT_HPU_AUTOCAST_FP32_OPS_LIST, PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST
from habana_tf.torch.record.nested import tensors

log = logging.getLogger("habana_tf")

_KEY = "AutocastPrivateUse1"


class CastPolicy(Enum):
    """How the floating-point tensors of an op are cast; fp64 ones are not.

    LOWER: to autocast's type. FIRST: as LOWER, but the first argument only. FP32: to fp32. WIDEST: to the widest type
    among them. PRODUCT: as LOWER, with the results cast to fp32.
    """

    LOWER = "lower precision"
    FIRST = "lower precision of the first argument"
    FP32 = "fp32"
    WIDEST = "the widest type"
    PRODUCT = "lower precision within"


LOWER = (
    "addbmm", "addmm", "baddbmm", "batch_norm", "bmm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "dot", "dropout", "feature_dropout", "group_norm", "instance_norm",
    "layer_norm", "leaky_relu", "linear", "log_softmax", "matmul", "mean", "mm", "mul", "mv",
    "scaled_dot_product_attention", "softmax",
)  # fmt: skip
"""Habana's default list of ops in lower precision."""
FP32 = (
    "acos", "addcdiv", "asin", "atan2", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist",
    "cosh", "cosine_embedding_loss", "cosine_similarity", "cross_entropy_loss", "dist", "div", "divide", "embedding",
    "embedding_bag", "erfinv", "exp", "expm1", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "log",
    "log10", "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "pdist", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rsqrt", "sinh",
    "smooth_l1_loss", "soft_margin_loss", "softplus", "tan", "topk", "triplet_margin_loss", "true_divide", "truediv",
)  # fmt: skip
"""Habana's default list of ops in fp32."""
WIDEST = ("add", "addcdiv", "addcmul", "cat", "div", "exp", "mul", "pow", "stack", "sub")
"""Habana's list of ops in the widest type of their arguments, where no other list has them."""
ONE_TYPE = (
    "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "cross", "grid_sampler", "index_put", "scatter_add", "tensordot",
)  # fmt: skip
"""Ops that take tensors of one type only, and may get those of two from ops of the first list: treated as `WIDEST`."""
_FIRST = frozenset({"batch_norm", "group_norm", "instance_norm", "layer_norm"})
"""Ops of the lower list whose weights and statistics stay in fp32."""
_ALIASES = {"cross_entropy": "cross_entropy_loss", "truediv": "true_divide", "convolution": "conv2d", "sdpa":
            "scaled_dot_product_attention", "binary_cross_entropy_loss": "binary_cross_entropy"}  # fmt: skip
"""ATen's name of an op, by another name that lists use."""


def policies(
    lower: Iterable[str], fp32: Iterable[str], of_lower: CastPolicy = CastPolicy.LOWER
) -> dict[str, CastPolicy]:
    """The policy of each op by name. A name on both lists runs in lower precision, as at Habana."""
    found = dict.fromkeys((*WIDEST, *ONE_TYPE), CastPolicy.WIDEST)
    found.update(dict.fromkeys(map(_aten, fp32), CastPolicy.FP32))
    for name in map(_aten, lower):
        found[name] = CastPolicy.FIRST if name in _FIRST and of_lower is CastPolicy.LOWER else of_lower
    return found


def _aten(name: str) -> str:
    return _ALIASES.get(name, name)


def read_list(path: str) -> tuple[str, ...]:
    """The op names in a file, one a line. Empty lines and lines that begin with # are skipped. Raises OSError."""
    with open(path, encoding="utf-8") as file:
        lines = (line.strip() for line in file)
        return tuple(line for line in lines if line and not line.startswith("#"))


class Casts:
    """The kernels that cast. They stay registered as long as this object lives, or until `replace`."""

    def __init__(self) -> None:
        self._all: Any = None
        self._aten: Any = None
        self._kept: dict[tuple[int, torch.dtype, bool], tuple[torch.Tensor, torch.Tensor]] = {}

    def register(self) -> None:
        """Registers kernels for the default lists, or for those in the settings' files."""
        self._all = torch.library.Library("_", "IMPL")
        self._all.fallback(torch.library.fallthrough_kernel, _KEY)
        torch.set_autocast_dtype("hpu", torch.bfloat16)
        self.replace(policies(
            _configured(PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST, LOWER),
            _configured(PT_HPU_AUTOCAST_FP32_OPS_LIST, FP32),
        ))  # fmt: skip

    def replace(self, chosen: dict[str, CastPolicy], verbose: bool = False) -> None:
        """Registers kernels for other policies in the place of these. verbose: logs each op when it is first cast."""
        if self._aten is not None:
            self._aten._destroy()
        self._aten = torch.library.Library("aten", "IMPL")
        for name, policy in chosen.items():
            found = list(_overloads(name))
            if not found:
                log.warning("PyTorch has no op %s, which a list of autocast names", name)
            for overload in found:
                self._aten.impl(overload._name.split("::")[1], self._kernel(overload, policy, verbose), _KEY)

    def _kernel(self, overload: Any, policy: CastPolicy, verbose: bool) -> Callable[..., Any]:
        """The kernel of an overload under autocast."""
        without_key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
        told = not verbose

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal told
            if not told:
                told = True
                log.warning("%s runs in %s", overload, policy.value)
            with torch._C._ExcludeDispatchKeyGuard(without_key):
                if policy is CastPolicy.FIRST:
                    return overload(self._cast(args[0], torch.get_autocast_dtype("hpu")), *args[1:], **kwargs)
                dtype = self._type(policy, args, kwargs)
                if dtype is None:
                    return overload(*args, **kwargs)
                named = {name: self._cast(value, dtype) for name, value in kwargs.items()}
                made = overload(*[self._cast(value, dtype) for value in args], **named)
                return self._cast(made, torch.float32) if policy is CastPolicy.PRODUCT else made

        return call

    def _type(self, policy: CastPolicy, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.dtype | None:
        """The type that a call's tensors are cast to; None for none."""
        if policy is CastPolicy.FP32:
            return torch.float32
        if policy is CastPolicy.WIDEST:
            types = {t.dtype for t in tensors((args, kwargs)) if _castable(t)}
            return None if len(types) < 2 else torch.float32  # of bf16, fp16 and fp32, no two the same
        return torch.get_autocast_dtype("hpu")

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        """An argument with its tensors cast to a type."""
        if isinstance(value, torch.Tensor):
            if value.dtype is dtype or not _castable(value):
                return value
            if value.requires_grad and value.is_leaf and not value._is_view() and torch.is_autocast_cache_enabled():
                return self._cast_weight(value, dtype)
            return value.to(dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(self._cast(x, dtype) for x in value)
        return value

    def _cast_weight(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A weight cast to a type, once until the outermost autocast ends. Kept by whether gradients are on, because a
        weight that was cast without has none to give."""
        key = id(weight), dtype, torch.is_grad_enabled()
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = weight, weight.to(dtype)
        return kept[1]

    def forget(self) -> None:
        """Forgets cast weights."""
        self._kept.clear()


def _configured(setting: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    """The list in a setting's file; the default one where it is unset or the file cannot be read."""
    path = setting.get()
    if path is None:
        return default
    try:
        return read_list(path)
    except OSError as error:
        log.warning("%s cannot be read, autocast uses its default list: %s", setting.name, error)
        return default


def _overloads(name: str) -> Iterable[Any]:
    """All overloads of an op that make new tensors."""
    packet = getattr(torch.ops.aten, name, None)
    for kind in packet.overloads() if packet is not None else ():
        overload = getattr(packet, kind)
        if not overload._schema.is_mutable:
            yield overload


def _castable(t: torch.Tensor) -> bool:
    return t.device.type == "hpu" and t.is_floating_point() and t.dtype is not torch.float64


default = Casts()
"""Those of this process."""
