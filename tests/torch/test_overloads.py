"""Every overload of the table beside PyTorch's CPU kernels: values and gradients, float32 and bfloat16.

bfloat16 is compared with float64, and may be as far from it as PyTorch's own bfloat16 is, twice over: a program rounds
where it stores, PyTorch after every op.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from habana_tf.resolver import placements
from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

    from tests.torch import rows as by_row
    from tests.torch.samples import SAMPLES

    NAMES, REACHED = tuple(SAMPLES), tuple(by_row.SAMPLES)
else:
    NAMES = REACHED = ()


def _flat(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _run(name: str, dtype: Any, device: str) -> list[Any]:
    """Results, then gradients of all tensors."""
    shapes, call = SAMPLES[name]
    generator = torch.Generator().manual_seed(5)
    given = [torch.randn(shape, generator=generator).to(torch.bfloat16) for shape in shapes]
    tensors = [x.to(dtype).to(device).requires_grad_() for x in given]
    results = _flat(call(*tensors))
    found = [r.detach() for r in results]
    wanted = [r for r in results if r.requires_grad]
    if wanted:
        seeds = [torch.randn(r.shape, generator=generator).to(torch.bfloat16).to(dtype).to(device) for r in wanted]
        grads = torch.autograd.grad(wanted, tensors, seeds, allow_unused=True)
        found += [g for g in grads if g is not None]
    return [x.cpu() for x in found]


@on_device(*NAMES)
def test_float32_is_as_on_the_cpu(name: str) -> None:
    for got, want in zip(_run(name, torch.float32, "hpu"), _run(name, torch.float32, "cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-6, atol=2e-6)


@on_device(*NAMES, modes=("lazy",))
def test_bfloat16_is_as_near_to_float64_as_on_the_cpu(name: str) -> None:
    exact, theirs = _run(name, torch.float64, "cpu"), _run(name, torch.bfloat16, "cpu")
    for got, want, cpu in zip(_run(name, torch.bfloat16, "hpu"), exact, theirs, strict=True):
        assert got.dtype is cpu.dtype and got.shape == cpu.shape
        if not got.dtype.is_floating_point:
            assert torch.equal(got, cpu)
            continue
        far = (cpu.double() - want).abs().max() if want.numel() else torch.tensor(0.0)
        size = want.abs().max() if want.numel() else torch.tensor(0.0)
        assert ((got.double() - want).abs() <= 2 * far + size / 128).all(), (got, want)


@on_device(*REACHED, modes=("lazy",))
def test_a_sample_of_a_row_is_computed_by_that_row(name: str) -> None:
    _run(name, torch.float32, "hpu")
    assert placements.placements().ops[name]


def test_rows_with_tests_of_their_own_are_in_the_table() -> None:
    from habana_tf.torch.ops.table import rows

    if HAS_TORCH:
        assert not {*by_row.SAMPLES, *by_row.ELSEWHERE} - {*rows()}
        for file in by_row.ELSEWHERE.values():
            assert (Path(__file__).parent / file).exists()


@on_device("float32", "int32", "int64", "uint8")
def test_a_histogram_counts_as_numpy_does(kind: str) -> None:
    dtype = getattr(torch, kind)
    x = torch.arange(-3, 30).remainder(11).to(dtype)
    if dtype is torch.float32:
        x = torch.cat([x / 3, torch.tensor([float("nan"), float("inf"), -float("inf"), 2.0, -0.0])])
    got = torch.histc(x.to("hpu"), bins=4, min=0, max=2)
    want, _ = np.histogram(x.float().numpy(), bins=4, range=(0, 2))
    assert got.dtype is dtype and got.cpu().tolist() == want.tolist()


def test_every_overload_of_the_table_is_one_of_pytorchs() -> None:
    """And the table has the counted ones of training steps, as far as they do not come apart into others."""
    from habana_tf.torch.ops.table import rows

    counted = (
        "add_.Tensor mul_.Tensor add.Tensor mul.Tensor mm div.Tensor sqrt sigmoid_ sigmoid_backward tanh tanh_ relu_ "
        "tanh_backward threshold_backward native_batch_norm native_batch_norm_backward bmm div_.Scalar cat mul.Scalar "
        "embedding_dense_backward _log_softmax clamp reciprocal _softmax max_pool2d_with_indices mean.dim div.Scalar "
        "max_pool2d_with_indices_backward rsub.Scalar lerp_.Scalar addcmul_ addcdiv_ convolution_overrideable addmm "
        "convolution_backward_overrideable native_layer_norm native_layer_norm_backward gelu gelu_backward "
        "_softmax_backward_data _log_softmax_backward_data nll_loss_forward nll_loss_backward linalg_vector_norm "
        "sum.dim_IntList index_select fill_.Scalar zero_ copy_"
    ).split()
    assert not set(counted) - set(rows())
    if HAS_TORCH:
        for name in (n for n in rows() if "::" not in n):
            packet, _, overload = name.partition(".")
            assert (overload or "default") in getattr(torch.ops.aten, packet).overloads(), name
