"""Weights of 4 bits in another type: whole numbers, eight in an int32, or MXFP4's floats, two in a uint8. The first is
in the lowest bits."""

from __future__ import annotations

import torch

from habana_tf.torch.hpu_ops.op import op

_IN_A_WORD = 8
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The numbers of MXFP4 without a sign, by their codes; 8 more in a code is a minus. Source: OCP's Microscaling Formats
(MX) Specification 1.0, section 5.3.3."""


@op("convert_from_uint4(Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype) -> Tensor")
def from_unsigned(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, out_dtype: torch.dtype
) -> torch.Tensor:
    """(input - zero_point) * scale in out_dtype, of numbers of 0 to 15: eight times as many along the last axis.

    zero_point: in 4 bits, or in another type. Where it or scale has fewer rows than input, each is of a group of rows.
    """
    return _dequantized(_unpacked(input), scale, zero_point, out_dtype, signed=False)


@op("convert_from_int4(Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype) -> Tensor")
def from_signed(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, out_dtype: torch.dtype
) -> torch.Tensor:
    """As `from_unsigned`, of numbers of -8 to 7."""
    return _dequantized(_signed(_unpacked(input)), scale, zero_point, out_dtype, signed=True)


def _unpacked(words: torch.Tensor) -> torch.Tensor:
    places = torch.arange(0, 4 * _IN_A_WORD, 4, dtype=torch.int32, device=words.device)
    return ((words.unsqueeze(-1) >> places) & 15).flatten(-2) if words.dim() else words


def _signed(numbers: torch.Tensor) -> torch.Tensor:
    return torch.where(numbers > 7, numbers - 16, numbers)


def _dequantized(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, dtype: torch.dtype, signed: bool
) -> torch.Tensor:
    wide = torch.float32 if dtype.itemsize == 1 else dtype
    x = x.to(wide)
    if zero is not None:
        if zero.dtype == torch.int32:
            zero = _signed(_unpacked(zero)) if signed else _unpacked(zero)
        x = x - _by_rows(zero.to(wide), x)
    return (x * _by_rows(scale.to(wide), x)).to(dtype)


def _by_rows(groups: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A row for each row of x, of which a group has one."""
    if groups.dim() < 2 or groups.dim() != x.dim() or groups.shape[-2] in (1, x.shape[-2]):
        return groups
    if x.shape[-2] % groups.shape[-2]:
        raise RuntimeError(f"{groups.shape[-2]} groups of scales or zero points do not divide {x.shape[-2]} rows")
    return groups.repeat_interleave(x.shape[-2] // groups.shape[-2], -2)


def from_mxfp4(packed: torch.Tensor, scale: torch.Tensor, block: int) -> torch.Tensor:
    """packed times scale in bfloat16: [rows, 2 * columns of packed]. scale: E8M0, the power of two by which each
    `block` numbers of a row are multiplied, in uint8 plus 127; 255 is NaN, and 0, a denormal number, counts as 0."""
    codes = ((packed.int().unsqueeze(-1) >> torch.tensor([0, 4], device=packed.device)) & 15).flatten(-2)
    numbers = torch.tensor([*_E2M1, *(-each for each in _E2M1)], device=packed.device)[codes]
    bits = scale.int() << 23  # as the exponent of a float32
    power = torch.where(scale == 255, torch.nan, bits.view(torch.float32))
    return (numbers * power.repeat_interleave(block, -1)[..., : numbers.shape[-1]]).bfloat16()
