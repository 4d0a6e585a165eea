"""Scaled dot product attention, and its gradients, of tensors in 16 and in 8 bits.

    weights = softmax(q @ k.T * scale + mask),  result = dropout(weights) @ v

Tensors are [.., positions, size]; k and v may have axes of length 1 where q has heads. In 8 bits `d_scale_x` undoes the
scale of x, and `q_scale_x` is that to cast x by: products have sums in float32, and softmax is computed in float32.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from habana_tf.torch.hpu_ops.float8 import amax, as_tensor
from habana_tf.torch.hpu_ops.op import op

_FLOAT8 = torch.float8_e4m3fn, torch.float8_e5m2
Scale: TypeAlias = torch.Tensor | float | None


def _whole(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Autocast sees the op, and none of those that it is made of."""

    @functools.wraps(formula)
    def call(q: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        kind = q.device.type
        with torch.autocast(kind, enabled=False) if kind in ("cpu", "hpu") else contextlib.nullcontext():
            return formula(q, *args, **kwargs)

    return call


def causal_and_valid(queries: int, keys: int, lengths: torch.Tensor, padding: str) -> torch.Tensor:
    """Whether a position attends to another, of sequences of these lengths, [batch]: [batch, 1, queries, keys].
    Raises ValueError for a padding that is not on the left or right."""
    if padding.lower() not in ("left", "right"):
        raise ValueError(f"FusedSDPA: seq_padding_type is left or right, not {padding!r}")
    valid = lengths.reshape(-1, 1, 1, 1)
    row = torch.arange(queries, device=lengths.device).reshape(-1, 1)
    column = torch.arange(keys, device=lengths.device)
    if padding.lower() == "right":
        return (column <= row) & (column < valid) & (row < valid)
    return (column <= row) & (column >= keys - valid)


def _product(
    a: torch.Tensor, turn_a: bool, b: torch.Tensor, turn_b: bool, a_inv: Scale = None, b_inv: Scale = None
) -> torch.Tensor:
    """The product in float32, which of tensors in 16 bits is rounded to those before."""
    if a.dtype in _FLOAT8:
        made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(
            a, turn_a, b, turn_b, None, torch.float32, _tensor(a_inv, a), _tensor(b_inv, b), None, False
        )
        return made
    return ((a.mT if turn_a else a) @ (b.mT if turn_b else b)).float()


def _tensor(scale: Scale, like: torch.Tensor) -> torch.Tensor | None:
    return None if scale is None else as_tensor(scale, like)


def _cast(x: torch.Tensor, scale: Scale, kind: torch.dtype) -> torch.Tensor:
    made: torch.Tensor = torch.ops.hpu.cast_to_fp8_v2(x, _tensor(scale, x), False, False, kind)[0]
    return made


def _amax(x: torch.Tensor, wanted: bool) -> torch.Tensor:
    return amax(x).reshape(1) if wanted else x.new_zeros(1, dtype=torch.float32)


def _kept_times(p: float) -> float:
    """By what dropout multiplies what it keeps."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    return 1 / (1 - p) if p < 1 else 0.0


def scores(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, scale: float, causal: bool,
    lengths: torch.Tensor | None, padding: str, q_inv: Scale = None, k_inv: Scale = None,
) -> torch.Tensor:  # fmt: skip
    """What softmax is of, in float32. A mask of booleans says where to attend."""
    made = _product(q, False, k, True, q_inv, k_inv) * scale
    if lengths is not None:
        mask, causal = causal_and_valid(q.shape[-2], k.shape[-2], lengths, padding), False
        mask = mask.reshape(mask.shape[0], *[1] * (made.dim() - 3), *mask.shape[-2:])
    if causal:
        allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        mask = (
            allowed if mask is None else allowed & mask if mask.dtype == torch.bool else mask.where(allowed, -math.inf)
        )
    if mask is None:
        return made
    return made.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else made + mask.float()


def weighted(
    x: torch.Tensor, v: torch.Tensor, kind: torch.dtype, p: float, s_scale: Scale = None, s_inv: Scale = None,
    v_inv: Scale = None, measured: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Of scores: the result in float32; the weights, in the type of the queries; what dropout keeps, one element
    without dropout; the largest weight, if measured. Rows without a position to attend to are 0."""
    weights = torch.ops.aten._safe_softmax(x, -1)
    kept, dropped, times = x.new_ones(1, dtype=torch.int8), weights, _kept_times(p)
    if p > 0:
        kept = (torch.rand_like(weights) >= p).to(torch.int8)
        dropped = weights * kept * times
    largest = _amax(weights, measured)
    if v.dtype not in _FLOAT8:
        return _product(dropped.to(v.dtype), False, v, False), weights.to(kind), kept, largest
    if s_scale is not None and s_inv is None:
        s_inv = 1 / s_scale
    made = _product(_cast(dropped, s_scale, kind), False, v, False, s_inv, v_inv)
    return made, _cast(weights, s_scale, kind), kept, largest


def _result(x: torch.Tensor, kind: torch.dtype, scale: Scale) -> torch.Tensor:
    if kind not in _FLOAT8:
        return x.to(kind)
    return x.bfloat16() if scale is None else _cast(x, scale, kind)


def _gradients(
    g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, weights: torch.Tensor,
    kept: torch.Tensor | None, p: float, scale: float, q_inv: Scale = None, k_inv: Scale = None, v_inv: Scale = None,
    s_inv: Scale = None, g_inv: Scale = None, ds_inv: Scale = None, ds_scale: Scale = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Of q, k and v, and that of the scores, in float32."""
    eight = weights.dtype in _FLOAT8
    wide = weights.float()
    if eight and s_inv is not None:
        wide = wide * s_inv
    dropped, factor = weights, None
    if p > 0 and kept is not None:
        factor = kept.float() * _kept_times(p)
        dropped = (
            _cast(wide * factor, 1 / s_inv if s_inv is not None else None, weights.dtype)
            if eight
            else (wide * factor).to(weights.dtype)
        )
    of_v = _product(dropped, True, g, False, s_inv, g_inv)
    of_weights = _product(g, False, v, True, g_inv, v_inv)
    if factor is not None:
        of_weights = of_weights * factor
    of_scores = wide * (of_weights - (of_weights * wide).sum(-1, keepdim=True))
    made = _cast(of_scores, ds_scale, g.dtype) if eight else of_scores.to(q.dtype)
    if ds_scale is not None and ds_inv is None:
        ds_inv = 1 / ds_scale
    of_q = _product(made, False, k, False, ds_inv, k_inv) * scale
    of_k = _product(made, True, q, False, ds_inv, q_inv) * scale
    kind = torch.bfloat16 if eight else q.dtype
    pairs = ((of_q, q), (of_k, k), (of_v, v))
    return (*(t.sum_to_size(like.shape).to(kind) for t, like in pairs), of_scores)


_INPUTS = "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal"
_PADDED = "Tensor? valid_seq_len, str seq_padding_type"
_SCALES = ", ".join(f"Tensor? {name}" for name in (
    "d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s"
))  # fmt: skip


@op(f"fp8_sdpa_fwd({_INPUTS}, str softmax_mode, {_SCALES}, bool is_amax_s, {_PADDED}) -> "
    "(Tensor, Tensor, Tensor, Tensor)")  # fmt: skip
@_whole
def fp8_sdpa_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None, p: float, scale: float,
    is_causal: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, q_scale_s: Scale,
    q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, valid_seq_len: torch.Tensor | None, seq_padding_type: str,
) -> Any:  # fmt: skip
    """The result, in 8 bits with q_scale_o, else in bfloat16 or the type of q; the weights in the type of q; what
    dropout keeps; the largest weight with is_amax_s. softmax_mode chooses between Habana's kernels."""
    x = scores(q, k, attention_mask, scale, is_causal, valid_seq_len, seq_padding_type, d_scale_q, d_scale_k)
    made, weights, kept, largest = weighted(x, v, q.dtype, p, q_scale_s, d_scale_s, d_scale_v, is_amax_s)
    return _result(made, q.dtype, q_scale_o), weights, kept, largest


_RECOMPUTED = f"{_INPUTS}, bool requires_backward, str softmax_mode"
_AMAX = f"bool is_amax_s, bool is_amax_o, {_PADDED}"
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"


@op(
    f"fp8_sdpa_recomp_fwd({_RECOMPUTED}, {_SCALES}, {_AMAX}) -> {_SIX}",
    f"fp8_sdpa_recomp_fwd.scalar({_RECOMPUTED}, {_SCALES.replace('Tensor?', 'float')}, {_AMAX}) -> {_SIX}",
)
@_whole
def fp8_sdpa_recomp_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None, p: float, scale: float,
    is_causal: bool, requires_backward: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale,
    q_scale_s: Scale, q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, is_amax_o: bool,
    valid_seq_len: torch.Tensor | None, seq_padding_type: str,
) -> Any:  # fmt: skip
    """The result; each row's largest score, and 1 over its sum of exponentials, float32; a seed; the largest weight
    and the largest result, where they are asked for. Raises RuntimeError for dropout, whose seed would decide it."""
    _no_dropout(p)
    x = scores(q, k, attention_mask, scale, is_causal, valid_seq_len, seq_padding_type, d_scale_q, d_scale_k)
    made, _, _, largest = weighted(x, v, q.dtype, 0.0, q_scale_s, d_scale_s, d_scale_v, is_amax_s)
    top = x.amax(-1, keepdim=True).clamp(min=-1e38)  # of a row that attends to nothing, too
    inverse = 1 / torch.exp(x - top).sum(-1, keepdim=True).clamp(min=1)  # what a row's largest score adds
    seed = x.new_zeros(1, dtype=torch.int32)
    return _result(made, q.dtype, q_scale_o), top, inverse, seed, largest, _amax(made, is_amax_o)


def _no_dropout(p: float) -> None:
    if p > 0:
        raise RuntimeError("sdpa_recomp_fwd has no dropout here: FusedSDPA has, and sdpa_fwd")


@op(f"sdpa_fwd({_INPUTS}, str softmax_mode, {_PADDED}) -> (Tensor, Tensor, Tensor)")
@_whole
def sdpa_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None, p: float, scale: float,
    is_causal: bool, softmax_mode: str, valid_seq_len: torch.Tensor | None, seq_padding_type: str,
) -> Any:  # fmt: skip
    """The result; the weights; what dropout keeps. softmax_mode chooses between Habana's kernels."""
    x = scores(q, k, attention_mask, scale, is_causal, valid_seq_len, seq_padding_type)
    made, weights, kept, _ = weighted(x, v, q.dtype, p)
    return made.to(q.dtype), weights, kept


@op(f"sdpa_recomp_fwd({_RECOMPUTED}, {_PADDED}) -> (Tensor, Tensor, Tensor, Tensor)")
@_whole
def sdpa_recomp_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None, p: float, scale: float,
    is_causal: bool, requires_backward: bool, softmax_mode: str, valid_seq_len: torch.Tensor | None,
    seq_padding_type: str,
) -> Any:  # fmt: skip
    """As `fp8_sdpa_recomp_fwd`, in 16 or 32 bits, without largest sizes."""
    nothing = (None,) * 6
    return fp8_sdpa_recomp_fwd(
        q, k, v, attention_mask, p, scale, is_causal, requires_backward, softmax_mode, *nothing, False, False,
        valid_seq_len, seq_padding_type,
    )[:4]  # fmt: skip


_GRADIENTS = "Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, float scale"


@op(f"sdpa_bwd({_GRADIENTS}, Tensor fwd_out) -> (Tensor, Tensor, Tensor)")
@_whole
def sdpa_bwd(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, P: torch.Tensor, dm: torch.Tensor | None,
    is_causal: bool, p: float, scale: float, fwd_out: torch.Tensor,
) -> Any:  # fmt: skip
    """The gradients of q, k and v, by the weights P and what dropout kept, dm."""
    return _gradients(grad, q, k, v, P, dm, p, scale)[:3]


@op("sdpa_recomp_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? attention_mask, Tensor m, Tensor linv, "
    "Tensor? seed, bool is_causal, float p, float scale, str softmax_mode, Tensor fwd_out) -> "
    "(Tensor, Tensor, Tensor)")  # fmt: skip
@_whole
def sdpa_recomp_bwd(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attention_mask: torch.Tensor | None,
    m: torch.Tensor, linv: torch.Tensor, seed: torch.Tensor | None, is_causal: bool, p: float, scale: float,
    softmax_mode: str, fwd_out: torch.Tensor,
) -> Any:  # fmt: skip
    """The gradients of q, k and v; the weights are computed again from each row's largest score and sum."""
    _no_dropout(p)
    weights = (torch.exp(scores(q, k, attention_mask, scale, is_causal, None, "") - m) * linv).to(q.dtype)
    return _gradients(grad, q, k, v, weights, None, 0.0, scale)[:3]


@op(f"fp8_sdpa_bwd({_GRADIENTS}, Tensor? d_scale_q, Tensor? d_scale_k, Tensor? d_scale_v, Tensor? d_scale_s, "
    "Tensor? d_scale_do, Tensor? d_scale_ds, Tensor? q_scale_s, Tensor? q_scale_ds, bool is_amax_ds, Tensor fwd_out) "
    "-> (Tensor, Tensor, Tensor, Tensor)")  # fmt: skip
@_whole
def fp8_sdpa_bwd(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, P: torch.Tensor, dm: torch.Tensor | None,
    is_causal: bool, p: float, scale: float, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, d_scale_s: Scale,
    d_scale_do: Scale, d_scale_ds: Scale, q_scale_s: Scale, q_scale_ds: Scale, is_amax_ds: bool, fwd_out: torch.Tensor,
) -> Any:  # fmt: skip
    """The gradients of q, k and v, in bfloat16 where P is in 8 bits; with is_amax_ds the largest gradient of a score,
    which are cast by q_scale_ds to the type of grad."""
    *made, of_scores = _gradients(
        grad, q, k, v, P, dm, p, scale, d_scale_q, d_scale_k, d_scale_v, d_scale_s, d_scale_do, d_scale_ds, q_scale_ds
    )
    return (*made, _amax(of_scores, is_amax_ds))
