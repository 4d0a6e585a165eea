"""Rotary positions, norms and variants of softmax."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from habana_tf.torch.hpu_ops.op import op

BLOCKWISE, PAIRWISE = 0, 1
"""Which elements are rotated together: those half a row apart, or neighbours."""
_ROTARY = "Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode"


def rotated(x: torch.Tensor, mode: int) -> torch.Tensor:
    """x with the two elements of each pair exchanged, the first of the result negated."""
    if mode == PAIRWISE:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def waves(
    x: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, position_ids: torch.Tensor | None, offset: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """sin and cos [.., positions, size] for x [batch, heads, positions, size]: the rows from offset on, or those of
    position_ids [batch, positions]. Of longer rows than those of x the columns from offset on."""
    if position_ids is None and cos.shape[-1] > x.shape[-1]:
        sin, cos = (t[..., offset : offset + x.shape[-1]] for t in (sin, cos))
    elif position_ids is not None and cos.dim() != x.dim():
        sin, cos = (t.reshape(-1, t.shape[-1])[position_ids].unsqueeze(1) for t in (sin, cos))
    elif position_ids is not None and cos.shape[:2] == (1, 1):
        sin, cos = (t[0, 0][position_ids].unsqueeze(1) for t in (sin, cos))
    elif cos.shape[-2] not in (1, x.shape[-2]):
        sin, cos = (t[..., offset : offset + x.shape[-2], :] for t in (sin, cos))
    return sin, cos


@op(f"rotary_pos_embedding(Tensor input, {_ROTARY}) -> Tensor")
def rotary(
    input: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, position_ids: torch.Tensor | None = None,
    offset: int = 0, mode: int = BLOCKWISE,
) -> torch.Tensor:  # fmt: skip
    """input cos + rotated(input) sin, in float32 where one of them is."""
    sin, cos = waves(input, sin, cos, position_ids, offset)
    dtype = torch.float32 if torch.float32 in (input.dtype, cos.dtype, sin.dtype) else input.dtype
    x, sin, cos = (t.to(dtype) for t in (input, sin, cos))
    return x * cos + rotated(x, mode) * sin


@op(f"rotary_pos_embedding_backward(Tensor grad_in, {_ROTARY}) -> Tensor")
def rotary_backward(
    grad_in: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, position_ids: torch.Tensor | None = None,
    offset: int = 0, mode: int = BLOCKWISE,
) -> torch.Tensor:  # fmt: skip
    """The gradient of `rotary`: rotations back."""
    sin, cos = waves(grad_in, sin, cos, position_ids, offset)
    return (grad_in * cos - rotated(grad_in * sin, mode)).to(grad_in.dtype)


_NORM = "Tensor data_in, Tensor gamma, float epsilon"
_BACKWARD = "Tensor grad_in, Tensor data_in, Tensor gamma, Tensor inverse_rms, bool use_stages, int bwd_mode"


def normed(x: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last axis, rounded once, to the type of x."""
    if x.dtype is gamma.dtype:
        return F.rms_norm(x, x.shape[-1:], gamma, epsilon)
    return F.rms_norm(x.float(), x.shape[-1:], gamma.float(), epsilon).to(x.dtype)


@op(f"rms_norm({_NORM}) -> (Tensor, Tensor)", f"rms_norm_fast({_NORM}) -> (Tensor, Tensor)")
def rms_norm(data_in: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm, and the factor 1 / sqrt(mean(data_in^2) + epsilon) in float32, with size 1."""
    inverse = torch.rsqrt(data_in.float().square().mean(-1, keepdim=True) + epsilon)
    return normed(data_in, gamma, epsilon), inverse


@op(f"rms_norm_backward({_BACKWARD}) -> (Tensor, Tensor)", f"rms_norm_fast_backward({_BACKWARD}) -> (Tensor, Tensor)")
def rms_norm_backward(
    grad_in: torch.Tensor, data_in: torch.Tensor, gamma: torch.Tensor, inverse_rms: torch.Tensor, use_stages: bool,
    bwd_mode: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The gradients of data_in and gamma. The last two choose between Habana's kernels and change nothing here."""
    normal = data_in.float() * inverse_rms
    scaled = grad_in.float() * gamma.float()
    back = (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * inverse_rms
    of_gamma = (grad_in.float() * normal).flatten(0, -2).sum(0)
    return back.to(data_in.dtype), of_gamma.to(gamma.dtype)


@op("custom_softmax(Tensor input, int flavor) -> Tensor")
def custom_softmax(input: torch.Tensor, flavor: int) -> torch.Tensor:
    """softmax over the last axis. flavor chooses how exact Habana's kernel is and changes nothing here."""
    return torch.softmax(input, -1)


_PACK, _VECTOR_BYTES = 8, 256
"""Gaudi3 keeps numbers of rows in vectors, of which the first 8 elements are used. Source: the bridge's own test."""


@op("softmax_fa2(Tensor input, *, Tensor? descale=None, Tensor inputM, Tensor inputL, int dim=-1, "
    "bool experimental_mode=False) -> (Tensor, Tensor, Tensor, Tensor)")  # fmt: skip
def softmax_fa2(
    input: torch.Tensor, *, descale: torch.Tensor | None = None, inputM: torch.Tensor, inputL: torch.Tensor,
    dim: int = -1, experimental_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """A step of flash attention's softmax over the last axis: exp(input - M), with the largest numbers M and the sums
    of the rows so far, and by what sums before are multiplied, exp(inputM - M). inputM, inputL: of what came before,
    [.., rows], or [.., vectors] as Gaudi3 has them; results are like them.

    Raises RuntimeError for another axis, NotImplementedError for inputs in 8 bits: how Habana's kernel scales their
    exponentials is not known.
    """
    if dim % input.dim() != input.dim() - 1:
        raise RuntimeError(f"softmax_fa2: only last input dimension is supported, got: {dim}")
    if input.dtype.itemsize == 1 or descale is not None or experimental_mode:
        raise NotImplementedError(
            "softmax_fa2 has no inputs in 8 bits here: cast them before (torch.ops.hpu.cast_from_fp8)"
        )
    rows, in_vectors = input.shape[-2], inputM.shape != input.shape[:-1]
    vector = _VECTOR_BYTES // inputM.dtype.itemsize
    before, total = (
        (t.unflatten(-1, (-1, vector))[..., :_PACK].flatten(-2)[..., :rows] if in_vectors else t).float()
        for t in (inputM, inputL)
    )
    x = input.float()
    most = torch.maximum(before, x.amax(-1))
    origin = torch.where(torch.isneginf(most), 0, most)  # of rows of -inf: no difference of infinities
    made = torch.exp(x - origin.unsqueeze(-1))
    again = torch.exp(before - origin)
    kept = [t.to(inputM.dtype) for t in (most, again * total + made.sum(-1), again)]
    if in_vectors:
        fill = -rows % _PACK
        kept = [F.pad(F.pad(t, (0, fill)).unflatten(-1, (-1, _PACK)), (0, vector - _PACK)).flatten(-2) for t in kept]
    return made.to(input.dtype), *kept


@op("scaled_masked_softmax(Tensor input, Tensor mask, float scale) -> Tensor")
def scaled_masked_softmax(input: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """softmax(input * scale + mask) over the last axis."""
    return torch.softmax(input * scale + mask, -1)
