"""Softmax of attention whose keys lie in blocks: each block by itself, then corrected by those of its sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from habana_tf.torch.hpu_ops.op import op


@op("block_softmax(Tensor attn, Tensor block_bias, Tensor block_groups) -> (Tensor, Tensor, Tensor)")
def block_softmax(
    attn: torch.Tensor, block_bias: torch.Tensor, block_groups: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """exp(attn + block_bias - largest) over the last axis, with the largest and the sum of each row, [blocks, rows].
    attn: [blocks, .., keys]; block_groups: the sequence of each block, -1 for one that pads, whose results are 0."""
    used = (block_groups != -1).reshape(-1, *[1] * (attn.dim() - 1))
    x = attn + block_bias.to(attn.dtype)
    most = torch.where(used, x.amax(-1, keepdim=True), 0)
    made = torch.where(used, torch.exp(x - most), 0)
    total = made.sum(-1, keepdim=True)
    return made, most.flatten(1), total.flatten(1)


@op(
    "block_softmax_const_max(Tensor attn, Tensor block_bias, Tensor block_groups, int batch_size, "
    "float global_block_max, float output_scale=1.0, ScalarType? output_dtype=None) -> Tensor"
)
def const_max(
    attn: torch.Tensor, block_bias: torch.Tensor, block_groups: torch.Tensor, batch_size: int,
    global_block_max: float, output_scale: float = 1.0, output_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    """The softmax of whole sequences whose keys lie in blocks, with one number in the place of the largest. Arguments
    as in `block_softmax`, of batch_size sequences. Results in 8 bits are cast times output_scale; without output_dtype
    they are of bfloat16."""
    made = torch.exp(attn + block_bias.to(attn.dtype) - global_block_max)
    groups = torch.where(block_groups < 0, batch_size, block_groups).long()  # what pads is a sequence of its own
    sums = made.sum(-1, keepdim=True)
    of_group = torch.zeros(batch_size + 1, *sums.shape[1:], dtype=sums.dtype, device=sums.device)
    of_group = of_group.index_add(0, groups, sums)
    used = (block_groups != -1).reshape(-1, *[1] * (attn.dim() - 1))
    found = torch.where(used, made / (of_group[groups] + torch.finfo(made.dtype).tiny), 0)
    dtype = output_dtype or torch.bfloat16
    if dtype.itemsize > 1:
        return found.to(dtype)
    cast, _ = torch.ops.hpu.cast_to_fp8_v2(found, output_scale, False, False, dtype)
    return cast


@op(
    "block_softmax_adjustment(Tensor block_maxes, Tensor block_sums, Tensor block_groups, int batch_size, "
    "int[]? out_shape=None) -> Tensor"
)
def adjustment(
    block_maxes: torch.Tensor, block_sums: torch.Tensor, block_groups: torch.Tensor, batch_size: int,
    out_shape: Sequence[int] | None = None,
) -> torch.Tensor:  # fmt: skip
    """By what each row of a block is multiplied, for the blocks of a sequence to be one softmax. block_groups: as in
    `block_softmax`, of batch_size sequences. Raises RuntimeError for maxes of less than 5 axes without out_shape."""
    if out_shape is None:
        if block_maxes.dim() != 5:
            raise RuntimeError(
                f"If no out_shape provided, block_maxes tensor must be 5-dimensional, got {block_maxes.dim()}"
            )
        out_shape = block_maxes.shape
    most, total = (t.flatten(1).float() for t in (block_maxes, block_sums))
    groups = torch.where(block_groups < 0, batch_size, block_groups).long()  # what pads is a sequence of its own
    index = groups.unsqueeze(-1).expand_as(most)
    empty = most.new_full((batch_size + 1, most.shape[1]), -torch.inf)
    of_group = empty.scatter_reduce(0, index, most, "amax")
    share = torch.exp(most - of_group[groups])
    sums = torch.zeros_like(empty).scatter_add(0, index, share * total)
    return (share / sums[groups]).to(block_maxes.dtype).reshape(list(out_shape))
