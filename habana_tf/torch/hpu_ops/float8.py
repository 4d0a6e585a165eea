"""Casts from and to 8-bit floats, products of them, and what belongs to that, as formulas of PyTorch's ops.

A cast multiplies by its scale in the type of the tensor that is not in 8 bits, and a cast to 8 bits ends at the largest
number of the simulated chip's format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from habana_tf.formulas import float8
from habana_tf.torch.hpu_ops.op import always, op
from habana_tf.torch.memory.element_types import PRIMITIVE
from habana_tf.torch.record import current

_BITS = {torch.float8_e4m3fn: (3, 2.0**-6), torch.float8_e5m2: (2, 2.0**-14)}
"""Bits of the mantissa, and the smallest number with a leading one."""


def largest(dtype: torch.dtype) -> float:
    """The largest number of an 8-bit format on the simulated chip. Raises RuntimeError for another type."""
    if dtype not in _BITS:
        raise RuntimeError(f"torch.float8_e4m3fn and torch.float8_e5m2 are 8-bit floats, {dtype} is none")
    return float8.largest(PRIMITIVE[dtype])


def amax(x: torch.Tensor) -> torch.Tensor:
    """The largest size in a tensor, in float32: 0 where it has no elements."""
    return x.abs().amax().float() if x.numel() else torch.zeros((), device=x.device)


@op("power_of_two(Tensor x, bool up=False) -> Tensor", row=always)
def power_of_two(x: torch.Tensor, up: bool = False) -> torch.Tensor:
    """The largest power of two that is at most x, or the smallest that is not below, of float32 from 0 on. A logarithm
    would have to be exact. The bridge has no such op: on the device another type's view of numbers that are not yet
    computed would end the program that computes them."""
    bits = x.view(torch.int32)
    return ((bits + 0x7FFFFF if up else bits) & 0x7F800000).view(torch.float32)


def as_tensor(scale: Any, like: torch.Tensor) -> torch.Tensor:
    """A scale, or one for each channel, in float32."""
    return torch.as_tensor(scale, dtype=torch.float32, device=like.device)


def _scaled(x: torch.Tensor, scale: torch.Tensor | float | None, shape: Sequence[int] | None) -> torch.Tensor:
    """x times a scale, which is rounded to the type of x before."""
    if scale is None:
        return x
    factor = scale if isinstance(scale, torch.Tensor) else torch.tensor(scale, dtype=x.dtype, device=x.device)
    return x * (factor if shape is None else factor.reshape(list(shape))).to(x.dtype)


def _dithered(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x in float32, at one of the two numbers of an 8-bit format beside it: at either with the probability that makes
    the mean x. Drawn from the generator of its device."""
    mantissa, smallest = _BITS[dtype]
    size = x.abs()
    step = torch.ops.hpu.power_of_two(size).clamp(min=smallest) * 2.0**-mantissa
    return torch.copysign(torch.floor(size / step + torch.rand_like(size)) * step, x)


def _is_one_op(
    input: torch.Tensor, scale: Any = None, stochastic_rounding: bool = False, is_amax: bool = False,
    dtype: torch.dtype | None = None, scale_shape: Any = None,
) -> bool:  # fmt: skip
    """Whether a cast has a row of its own: one that rounds by chance only where it is recorded and never run, because
    a card is taken to convert so in one op (an assumption: docs/fidelity.md)."""
    return not stochastic_rounding or current.recorder().unrun is not None


_CAST = "bool stochastic_rounding=False, bool is_amax=False, ScalarType dtype=None, int[]? scale_shape=None"


@op(
    f"cast_to_fp8_v2(Tensor input, Tensor? scale=None, {_CAST}) -> (Tensor, Tensor)",
    f"cast_to_fp8_v2.scalar(Tensor input, float scale, {_CAST}) -> (Tensor, Tensor)",
    row=_is_one_op,
)
def cast_to_fp8(
    input: torch.Tensor, scale: torch.Tensor | float | None = None, stochastic_rounding: bool = False,
    is_amax: bool = False, dtype: torch.dtype | None = None, scale_shape: Sequence[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """input * scale in 8 bits, by default in float8_e5m2; and the largest size in input, in float32, with is_amax, else
    a tensor without elements. scale_shape: the shape to see a scale in that is a vector.

    Raises RuntimeError for an input in 8 bits with is_amax, or of another type than the result.
    """
    dtype = dtype or torch.float8_e5m2
    if input.dtype in _BITS:
        _check_same(input.dtype, dtype, is_amax)
        x = input.float()
    else:
        x = input
    end = largest(dtype)
    x = _scaled(x, scale, scale_shape).float().clamp(-end, end)
    if stochastic_rounding:
        x = _dithered(x, dtype)
    return x.to(dtype), amax(input) if is_amax else input.new_empty(0, dtype=torch.float32)


def _check_same(source: torch.dtype, target: torch.dtype, is_amax: bool) -> None:
    if is_amax:
        raise RuntimeError("CastToFp8V2 must have no amax for float8.")
    if source != target:
        names = " and ".join(str(each).removeprefix("torch.").replace("f", "F", 1) for each in (source, target))
        raise RuntimeError(f"CastToFp8V2 input and output must have the same dtype for float8, but are {names}")


@op(f"cast_to_fp8_v2.scalar_list(Tensor input, float[] scale, {_CAST}) -> (Tensor, Tensor)")
def cast_to_fp8_by_list(input: torch.Tensor, scale: Sequence[float], *rest: Any, **named: Any) -> Any:
    """As `cast_to_fp8`, with a scale for each channel."""
    return torch.ops.hpu.cast_to_fp8_v2(input, as_tensor(scale, input), *rest, **named)


@op("cast_to_fp8(Tensor input, Tensor? scale, bool stochastic_rounding, Tensor(a!) out, Tensor(b!) amax) -> "
    "(Tensor(a!), Tensor(b!))")  # fmt: skip
def cast_to_fp8_out(
    input: torch.Tensor, scale: torch.Tensor | None, stochastic_rounding: bool, out: torch.Tensor, amax: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """`cast_to_fp8` into `out`, in its type, and the largest size into `amax`, if that has an element."""
    measured = amax.numel() > 0
    made, largest = torch.ops.hpu.cast_to_fp8_v2(input, scale, stochastic_rounding, measured, out.dtype)
    out.copy_(made)
    if measured:
        amax.copy_(largest.reshape(amax.shape))
    return out, amax


@op(
    "cast_to_fp8_hybrid(Tensor input, Tensor? scale_152=None, Tensor? scale_143=None, bool stochastic_rounding=False, "
    "bool is_amax=False) -> (Tensor, Tensor, Tensor)"
)
def cast_to_fp8_hybrid(
    input: torch.Tensor, scale_152: torch.Tensor | None = None, scale_143: torch.Tensor | None = None,
    stochastic_rounding: bool = False, is_amax: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """input in float8_e5m2, whose rounding may be left to chance, and in float8_e4m3fn; the largest size."""
    cast = torch.ops.hpu.cast_to_fp8_v2
    wide, size = cast(input, scale_152, stochastic_rounding, is_amax, torch.float8_e5m2)
    return wide, cast(input, scale_143, False, False, torch.float8_e4m3fn)[0], size


@op(
    "cast_from_fp8(Tensor input, Tensor? scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor",
    "cast_from_fp8.scalar(Tensor input, float scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor",
    row=always,
)
def cast_from_fp8(
    input: torch.Tensor, scale: torch.Tensor | float | None, out_dtype: torch.dtype,
    scale_shape: Sequence[int] | None = None,
) -> torch.Tensor:  # fmt: skip
    """input * scale in out_dtype. scale_shape: as in `cast_to_fp8`."""
    return _scaled(input.to(out_dtype), scale, scale_shape)


@op("cast_from_fp8.scalar_list(Tensor input, float[] scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor")
def cast_from_fp8_by_list(
    input: torch.Tensor, scale: Sequence[float], out_dtype: torch.dtype, scale_shape: Sequence[int] | None = None
) -> torch.Tensor:
    """As `cast_from_fp8`, with a scale for each channel."""
    made: torch.Tensor = torch.ops.hpu.cast_from_fp8(input, as_tensor(scale, input), out_dtype, scale_shape)
    return made


@op(
    "cast_to_fp8_just_in_time(Tensor input, int[2] block_shape, ScalarType? out_dtype=None, "
    "ScalarType? scale_dtype=None) -> (Tensor, Tensor)"
)
def cast_to_fp8_just_in_time(
    input: torch.Tensor, block_shape: Sequence[int], out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """input in 8 bits, by default float8_e4m3fn; and by what each block of the last two axes, [height, width] in size,
    is multiplied to undo it: its largest size over the format's largest number, 1 for a block of zeros, by default in
    the type of input. Raises RuntimeError for blocks that are no squares and of several rows and columns, or that do
    not divide input."""
    height, width = block_shape
    dtype = out_dtype or torch.float8_e4m3fn
    if input.dim() < 2 or min(height, width) < 1 or input.shape[-2] % height or input.shape[-1] % width:
        raise RuntimeError(
            f"cast_to_fp8_just_in_time: blocks of {[height, width]} do not divide the last two axes of {[*input.shape]}"
        )
    if height != width and 1 not in (height, width):
        raise RuntimeError(f"cast_to_fp8_just_in_time: blocks are rows, columns or squares, not {[height, width]}")
    blocks = input.float().unflatten(-1, (-1, width)).unflatten(-3, (-1, height))
    size = (blocks.abs().amax((-3, -1)) / largest(dtype)).to(scale_dtype or input.dtype)
    scale = torch.where(size == 0, 1, size)
    made = torch.ops.hpu.cast_to_fp8_v2(input.float() / by_blocks(scale, height, width).float(), None, dtype=dtype)[0]
    return made, scale


def by_blocks(scale: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The scale of each element, of blocks that have one each."""
    return scale.repeat_interleave(height, -2).repeat_interleave(width, -1)


_GEMM = "Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype"
_REST = "Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None"


def _has_blocks(
    A: Any, trans_A: bool, B: Any, trans_B: bool, D: Any, out_dtype: Any, A_scale_inv: Any = None,
    B_scale_inv: Any = None, *rest: Any, **named: Any,
) -> bool:  # fmt: skip
    """Whether scales are of blocks of what is summed over: A's [.., rows, blocks] and B's [blocks, columns]."""
    tensors = isinstance(A_scale_inv, torch.Tensor) and isinstance(B_scale_inv, torch.Tensor)
    return (
        tensors and A_scale_inv.dim() > 1 and B_scale_inv.dim() == 2 and A_scale_inv.shape[-1] == len(B_scale_inv) > 1
    )


def _is_whole(*args: Any, **named: Any) -> bool:
    return not _has_blocks(*args, **named)


@op(
    f"fp8_gemm_v2({_GEMM}, Tensor? A_scale_inv=None, Tensor? B_scale_inv=None, {_REST}) -> Tensor",
    f"fp8_gemm_v2.scalar({_GEMM}, float A_scale_inv, float B_scale_inv, {_REST}) -> Tensor",
    row=_is_whole,
)
def fp8_gemm(
    A: torch.Tensor, trans_A: bool, B: torch.Tensor, trans_B: bool, D: torch.Tensor | None, out_dtype: torch.dtype,
    A_scale_inv: torch.Tensor | float | None = None, B_scale_inv: torch.Tensor | float | None = None,
    bias: torch.Tensor | None = None, accumulate: bool = False, B_scale_shape: Sequence[int] | None = None,
) -> torch.Tensor:  # fmt: skip
    """A @ B times both scales, plus bias, plus D with accumulate: sums in float32, rounded once to out_dtype. A, B:
    matrices, or batches of them that are broadcast, turned over where it is said so. Scales of blocks (`_has_blocks`):
    a column of B's may be of as many columns as a block has rows."""
    x, y = (t.float().mT if turned and t.dim() > 1 else t.float() for t, turned in ((A, trans_A), (B, trans_B)))
    if _has_blocks(A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv):
        assert isinstance(A_scale_inv, torch.Tensor) and isinstance(B_scale_inv, torch.Tensor)
        size, columns = x.shape[-1] // A_scale_inv.shape[-1], y.shape[-1]
        x = x * by_blocks(A_scale_inv.float(), x.shape[-2] // A_scale_inv.shape[-2], size)
        y = y * by_blocks(B_scale_inv.float(), size, 1 if B_scale_inv.shape[-1] == columns else size)[:, :columns]
        A_scale_inv = B_scale_inv = None
    total = _scaled(_scaled(x @ y, A_scale_inv, None), B_scale_inv, B_scale_shape)
    for more in (bias, D if accumulate else None):
        if more is not None:
            total = total + more.float()
    return total.to(out_dtype)


@op(
    "fp8_gemm(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor D, ScalarType out_dtype, Tensor? A_scale_inv, "
    "Tensor? B_scale_inv, Tensor? bias, bool accumulate, Tensor(a!) out) -> Tensor(a!)"
)
def fp8_gemm_out(*args: Any) -> torch.Tensor:
    """`fp8_gemm` into its last argument."""
    made: torch.Tensor = args[-1].copy_(torch.ops.hpu.fp8_gemm_v2(*args[:-1]))
    return made


@op(f"fp8_gemm_v2.scalar_list({_GEMM}, float[] A_scale_inv, float[] B_scale_inv, {_REST}) -> Tensor")
def fp8_gemm_by_list(
    A: torch.Tensor, trans_A: bool, B: torch.Tensor, trans_B: bool, D: torch.Tensor | None, out_dtype: torch.dtype,
    A_scale_inv: Sequence[float], B_scale_inv: Sequence[float], *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    """As `fp8_gemm`, with scales for channels."""
    scales = as_tensor(A_scale_inv, A), as_tensor(B_scale_inv, B)
    return torch.ops.hpu.fp8_gemm_v2(A, trans_A, B, trans_B, D, out_dtype, *scales, *rest, **named)


_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, "
    "int groups=1, ScalarType? out_dtype=None"
)


@op(
    f"conv2d_fp8({_CONVOLUTION}, Tensor? scale_input=None, Tensor? scale_weight=None) -> Tensor",
    f"conv2d_fp8.scalar({_CONVOLUTION}, float scale_input=1.0, float scale_weight=1.0) -> Tensor",
)
def conv2d_fp8(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0), dilation: Sequence[int] = (1, 1), groups: int = 1,
    out_dtype: torch.dtype | None = None, scale_input: torch.Tensor | float | None = None,
    scale_weight: torch.Tensor | float | None = None,
) -> torch.Tensor:  # fmt: skip
    """A convolution times both scales, plus bias, rounded to out_dtype, by default bfloat16. Sums are in float32."""
    made = torch.conv2d(input.float(), weight.float(), None, stride, padding, dilation, groups)
    made = _scaled(_scaled(made, scale_input, None), scale_weight, None)
    if bias is not None:
        made = made + bias.float().reshape(-1, 1, 1)
    return made.to(out_dtype or torch.bfloat16)


_SOFTMAX = "Tensor input, int dim"


@op(
    f"softmax_fp8({_SOFTMAX}, Tensor? input_scale=None, Tensor? output_scale=None, Tensor? inv_attn_heads=None, "
    "Tensor? fused_add=None) -> Tensor",
    f"softmax_fp8.Scalar_scales({_SOFTMAX}, float input_scale, float output_scale, Tensor? inv_attn_heads=None, "
    "Tensor? fused_add=None) -> Tensor",
    f"softmax_fp8.Scalar({_SOFTMAX}, float input_scale, float output_scale, float inv_attn_heads, "
    "Tensor? fused_add=None) -> Tensor",
)
def softmax_fp8(
    input: torch.Tensor, dim: int, input_scale: torch.Tensor | float | None = None,
    output_scale: torch.Tensor | float | None = None, inv_attn_heads: torch.Tensor | float | None = None,
    fused_add: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """softmax(input * inv_attn_heads * input_scale + fused_add), times output_scale in float8_e4m3fn; in bfloat16
    without scales. Raises RuntimeError where one scale is given, or fused_add or an input in 8 bits without any."""
    if (input_scale is None) != (output_scale is None):
        raise RuntimeError("softmax_fp8: input_scale and output_scale are both given or both None")
    if input_scale is None and (fused_add is not None or input.dtype in _BITS):
        raise RuntimeError("softmax_fp8: an input in 8 bits, and fused_add, need input_scale and output_scale")
    x = _scaled(_scaled(input.float(), inv_attn_heads, None), input_scale, None)
    if fused_add is not None:
        x = x + fused_add.float()
    made = torch.softmax(x, dim)
    if output_scale is None:
        return made.bfloat16()
    narrow: torch.Tensor = torch.ops.hpu.cast_to_fp8_v2(made, output_scale, False, False, torch.float8_e4m3fn)[0]
    return narrow


@op("sum_fp8(Tensor self, int[1]? dim=None, bool keepdim=False, ScalarType? out_dtype=None) -> Tensor")
def sum_fp8(
    self: torch.Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The sum over axes, by default all, in float32, rounded to out_dtype, by default the type of self."""
    return self.float().sum(dim, keepdim).to(out_dtype or self.dtype)


@op(
    "calculate_scale_for_cast(Tensor input, int maxMode, int scaleMode, int? reduceAxis=None, "
    "bool reduceKeepdim=False, float fullscale=1.0, float backoff=1.0) -> Tensor"
)
def calculate_scale_for_cast(
    input: torch.Tensor, maxMode: int, scaleMode: int, reduceAxis: int | None = None, reduceKeepdim: bool = False,
    fullscale: float = 1.0, backoff: float = 1.0,
) -> torch.Tensor:  # fmt: skip
    """The largest size in input, over fullscale * backoff. maxMode: 0 takes input as it is, 1 the largest of all, 2 of
    each channel, along reduceAxis. scaleMode: 1 rounds up to a power of two. Raises RuntimeError for another mode."""
    if maxMode not in (0, 1, 2) or scaleMode not in (0, 1):
        raise RuntimeError(
            f"calculate_scale_for_cast: maxMode is 0, 1 or 2 and scaleMode 0 or 1, not {maxMode}, {scaleMode}"
        )
    x = input
    if maxMode:
        size = input.abs()
        x = size.amax() if maxMode == 1 else size.amax(reduceAxis if reduceAxis is not None else 0, reduceKeepdim)
        x = x / (fullscale * backoff)
    if not scaleMode:
        return x
    return torch.where(x >= 0, torch.ops.hpu.power_of_two(x.float(), up=True).to(x.dtype), torch.nan)
