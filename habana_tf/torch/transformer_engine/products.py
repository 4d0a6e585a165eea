"""Products of tensors in 8 bits with their gradients, of one matrix or of several, each with its rows of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf.torch.record import current
from habana_tf.torch.transformer_engine.module import Run
from habana_tf.torch.transformer_engine.scaling import FP8TensorMeta


@dataclass
class Cast:
    """A tensor in 8 bits: `forward` in the type of forward passes, `backward` in that of gradients, each with what
    undoes its scale; `amax`, its largest size, if it was measured."""

    forward: torch.Tensor
    forward_inv: torch.Tensor
    backward: torch.Tensor | None
    backward_inv: torch.Tensor
    amax: torch.Tensor


def cast(x: torch.Tensor, run: Run, index: int, kept: bool) -> Cast:
    """The tensor of a number in 8 bits. kept: whether it is needed for gradients in their type too."""
    forward, amax, inv = cast_by(x, run.forward, index, run.kinds.forward, measured=run.measured)
    if run.hybrid is run.forward:
        return Cast(forward, inv, forward if kept else None, inv, amax)
    backward = cast_by(x, run.hybrid, index, run.kinds.backward)[0] if kept else None
    return Cast(forward, inv, backward, run.hybrid.scale_inv[index].clone(), amax)


def cast_by(
    x: torch.Tensor, meta: FP8TensorMeta, index: int, kind: torch.dtype, chance: bool = False, measured: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """In 8 bits; the largest size; and what undoes the scale, which stays when the scale changes."""
    made, amax = torch.ops.hpu.cast_to_fp8_v2(x, meta.scale[index], chance, measured, kind)
    return made, amax, meta.scale_inv[index].clone()


def gemm(
    x: torch.Tensor, turn_x: bool, y: torch.Tensor, turn_y: bool, dtype: torch.dtype, x_inv: torch.Tensor,
    y_inv: torch.Tensor, bias: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """The product of matrices in 8 bits, with sums in float32."""
    made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(x, turn_x, y, turn_y, None, dtype, x_inv, y_inv, bias, False)
    return made


@dataclass
class Layer:
    """What a call has besides tensors. splits: the rows of each matrix, None if there is one matrix. recast: whether
    the weights that gradients need are cast again for them, by the scales of this run."""

    run: Run
    splits: Sequence[int] | None
    dtype: torch.dtype
    recast: bool
    group: Any

    def parts(self, x: torch.Tensor) -> Sequence[torch.Tensor]:
        """The rows of each matrix."""
        return [x] if self.splits is None else x.split(list(self.splits))


class Products(torch.autograd.Function):
    """x @ weight.T + bias for each weight and its part of x, [rows, inputs]; results are stacked.

    For each: the input in 8 bits, and the weight, by `cast`. Their scales are of the tensors 2 i and 2 i + 1 in forward
    passes, that of the i-th gradient of the tensor i in backward passes.
    """

    @staticmethod
    def forward(
        ctx: Any, layer: Layer, x: torch.Tensor, inputs: list[Cast], quantized: list[Cast], *parameters: Any
    ) -> torch.Tensor:  # fmt: skip
        count = len(inputs)
        weights, biases = parameters[:count], parameters[count:]
        made = [
            gemm(a.forward, False, w.forward, True, layer.dtype, a.forward_inv, w.forward_inv, bias)
            for a, w, bias in zip(inputs, quantized, biases, strict=True)
        ]
        run, saved = layer.run, []
        wide = run.recipe.override_linear_precision[2]
        for k in range(count):
            recast = layer.recast and quantized[k].backward is None
            undone = run.hybrid.scale[2 * k + 1].clone() if recast else None
            saved += [
                None if wide else inputs[k].backward, inputs[k].backward_inv,
                weights[k] if recast else quantized[k].backward, quantized[k].backward_inv, undone,
            ]  # fmt: skip
        ctx.save_for_backward(x if wide else None, *saved)
        ctx.layer, ctx.count = layer, count
        ctx.dtypes = x.dtype, [w.dtype for w in weights], [None if b is None else b.dtype for b in biases]
        return made[0] if layer.splits is None else torch.cat(made)

    @staticmethod
    @current.together()
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        layer, run, count = ctx.layer, ctx.layer.run, ctx.count
        x, *saved = ctx.saved_tensors
        rows = layer.parts(gradients[0].contiguous())
        wide = layer.parts(x) if x is not None else []
        dtype, weight_dtypes, bias_dtypes = ctx.dtypes
        of_x, amaxes = [], []
        of_weights: list[torch.Tensor | None] = []
        of_biases: list[torch.Tensor | None] = []
        for k, g in enumerate(rows):
            a, a_inv, w, w_inv, scale = saved[5 * k : 5 * k + 5]
            g8, amax, g_inv = cast_by(g, run.backward, k, run.kinds.backward, run.chance, run.measured)
            amaxes.append(amax)
            if ctx.needs_input_grad[1]:
                if scale is not None:
                    w = torch.ops.hpu.cast_to_fp8_v2(w, scale, False, False, run.kinds.backward)[0]
                of_x.append(gemm(g8, False, w, False, dtype, g_inv, w_inv))
            if not ctx.needs_input_grad[4 + k]:
                of_weights.append(None)
            elif a is None:
                of_weights.append((g.mT @ wide[k].to(g.dtype)).to(weight_dtypes[k]))
            else:
                of_weights.append(gemm(g8, True, a, False, weight_dtypes[k], g_inv, a_inv))
            wanted = ctx.needs_input_grad[4 + count + k]
            of_biases.append(g.float().sum(0).to(bias_dtypes[k]) if wanted else None)
        run.measure(run.backward, amaxes, layer.group)
        of_inputs = None if not of_x else of_x[0] if layer.splits is None else torch.cat(of_x)
        return None, of_inputs, None, None, *of_weights, *of_biases
