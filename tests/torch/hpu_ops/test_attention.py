"""Attention of `torch.ops.hpu`, in float32 and in 8 bits, against PyTorch's formula in float64 on the CPU."""

from __future__ import annotations

import math

import pytest

from tests.child import python
from tests.torch.child import on_device, raises

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def exact(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result and the weights in float64; 0 where a row attends to nothing."""
    x = q.double() @ k.double().mT * scale
    if causal:
        x = x.masked_fill(~torch.ones(x.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        x = x.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else x + mask
    weights = torch.ops.aten._safe_softmax(x, -1)
    return weights @ v.double(), weights


def operands(heads: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = (2, 3, 5, 4), (2, heads, 7, 4), (2, heads, 7, 6)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def near(made: torch.Tensor, want: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(made.cpu().double(), want.detach(), rtol=tolerance, atol=tolerance)


@on_device()
def test_in_float32_with_gradients() -> None:
    mask = torch.randn(2, 1, 5, 7)
    mask[0, 0, 2] = -1.0
    for heads in (3, 1):
        for m, causal in ((None, False), (None, True), (mask, False), (mask > 0, False)):
            mine = [t.to("hpu") for t in operands(heads)]
            theirs = [t.double().requires_grad_() for t in operands(heads)]
            given = None if m is None else m.to("hpu")
            want, weights = exact(*theirs, m, causal, 0.3)
            g = torch.randn(2, 3, 5, 6)
            want.backward(g.double())
            made, p, kept = torch.ops.hpu.sdpa_fwd(*mine, given, 0.0, 0.3, causal, "None", None, "left")
            near(made, want), near(p, weights)
            found = torch.ops.hpu.sdpa_bwd(g.to("hpu"), *mine, p, kept, causal, 0.0, 0.3, made)
            again, top, inverse, seed = torch.ops.hpu.sdpa_recomp_fwd(
                *mine, given, 0.0, 0.3, causal, True, "fast", None, "left"
            )
            near(again, want)
            more = torch.ops.hpu.sdpa_recomp_bwd(
                g.to("hpu"), *mine, given, top, inverse, seed, causal, 0.0, 0.3, "fast", again
            )
            for a, b, t in zip(found, more, theirs, strict=True):
                near(a, t.grad), near(b, t.grad)


@on_device()
def test_autocast_leaves_an_op_whole() -> None:
    mine = [t.to("hpu") for t in operands()]
    with torch.autocast("hpu", torch.bfloat16):
        made, _, _ = torch.ops.hpu.sdpa_fwd(*mine, None, 0.0, 0.3, True, "None", None, "left")
    near(made, exact(*operands(), None, True, 0.3)[0])


@on_device()
def test_dropout_keeps_what_it_says() -> None:
    q, k, v = (t.to("hpu") for t in operands())
    made, p, kept = torch.ops.hpu.sdpa_fwd(q, k, v, None, 0.25, 0.5, False, "None", None, "left")
    near(made, (p.cpu() * kept.cpu() / 0.75).double() @ v.cpu().double())
    assert kept.dtype == torch.int8 and set(kept.cpu().unique().tolist()) == {0, 1}
    g = torch.ones_like(made)
    near(torch.ops.hpu.sdpa_bwd(g, q, k, v, p, kept, False, 0.25, 0.5, made)[2],
         (p.cpu() * kept.cpu() / 0.75).double().mT @ g.cpu().double())  # fmt: skip
    raises(
        "has no dropout here",
        lambda: torch.ops.hpu.sdpa_recomp_fwd(q, k, v, None, 0.1, 0.5, False, True, "None", None, "left"),
    )


def eight_bits(end: float) -> None:
    """Weights of softmax are rounded to E4M3 by their scale; all else is exact."""
    scales = 16.0, 8.0, 4.0
    cast = [(t * s).clamp(-end, end).to(E4M3) for t, s in zip(operands(), scales, strict=True)]
    wide = [t.double() / s for t, s in zip(cast, scales, strict=True)]
    _, weights = exact(*wide, None, True, 0.5)
    want = (weights.float() * 64).clamp(-end, end).to(E4M3).double() / 64 @ wide[2]
    as_tensor = lambda x: torch.tensor([x], device="hpu")
    mine, inverses = [t.to("hpu") for t in cast], [as_tensor(1 / s) for s in scales]
    made, p, _, largest = torch.ops.hpu.fp8_sdpa_fwd(
        *mine, None, 0.0, 0.5, True, "None", *inverses, as_tensor(64.0), None, None, True, None, "left"
    )
    assert made.dtype == torch.bfloat16 and p.dtype == E4M3 and largest.item() == 1.0
    torch.testing.assert_close(made.cpu().double(), want, rtol=8e-3, atol=2e-2)
    for out_scale, kind in ((32.0, E4M3), (None, torch.bfloat16)):
        for form in (as_tensor, float):
            if out_scale is None and form is float:
                continue
            numbers = [form(1 / s) for s in scales]
            out = None if out_scale is None else form(out_scale)
            made, _, _, _, top, result = torch.ops.hpu.fp8_sdpa_recomp_fwd(
                *mine, None, 0.0, 0.5, True, False, "fast", *numbers, form(64.0), out, form(1 / 64), True, True, None,
                "left",
            )  # fmt: skip
            assert made.dtype == kind and top.item() == 1.0
            torch.testing.assert_close(result.item(), want.abs().max().item(), rtol=1e-2, atol=0)
            got = made.cpu().double() / (out_scale or 1)
            torch.testing.assert_close(got, want.clamp(-end / 32, end / 32), rtol=0.07, atol=0.03)
    g = torch.randn(2, 3, 5, 6)
    theirs = [t.clone().requires_grad_() for t in wide]
    exact(*theirs, None, True, 0.5)[0].backward(g.double())
    ones = as_tensor(1.0)
    found = torch.ops.hpu.fp8_sdpa_bwd(
        (g * 16).to(E5M2).to("hpu"), *mine, p, None, True, 0.0, 0.5, *inverses, as_tensor(1 / 64), as_tensor(1 / 16),
        ones / 64, None, ones * 64, True, made,
    )  # fmt: skip
    for got, t in zip(found[:3], theirs, strict=True):
        error = (got.cpu().double() - t.grad).norm() / t.grad.norm()
        assert got.dtype == torch.bfloat16 and error < 0.12, error


@on_device()
def test_in_8_bits() -> None:
    eight_bits(240.0)


def test_in_8_bits_on_gaudi3() -> None:
    python(
        """
        import habana_frameworks.torch.core
        from tests.torch.hpu_ops.test_attention import eight_bits
        eight_bits(448.0)
        """,
        imported=True,
        HABANA_SIM_CHIP="gaudi3",
    )


@on_device()
def test_fused_with_shared_heads_and_weights() -> None:
    from habana_frameworks.torch.hpex.kernels import Fp8FusedSDPA, FusedSDPA, fp8_fused_sdpa

    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    wide = [k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)]
    want, weights = exact(q, *wide, None, True, 0.5)
    mine = [t.to("hpu") for t in (q, k, v)]
    assert Fp8FusedSDPA.is_gqa(q, k) and not Fp8FusedSDPA.is_gqa(q, k[:, :1])
    for again in (True, False):
        made, largest, result = fp8_fused_sdpa(*mine, is_causal=True, is_amax_s=True, is_amax_o=True, recompute=again)
        near(made, want)
        assert largest.item() == 1.0 and (result is not None) is again
    made, p = FusedSDPA.apply(*mine, None, 0.0, True, None, "None", False, None, "left", False, True)
    near(made, want), near(p, weights)
    mask = torch.randn(2, 1, 5, 5)
    near(fp8_fused_sdpa(*mine, attn_mask=mask.to("hpu"))[0], exact(q, *wide, mask, False, 0.5)[0])
    near(fp8_fused_sdpa(*mine, attn_mask=mask.expand(2, 6, 5, 5).to("hpu"))[0], exact(q, *wide, mask, False, 0.5)[0])
    lengths = torch.tensor([3, 5], device="hpu")
    made = fp8_fused_sdpa(*mine, is_causal=True, valid_seq_len=lengths, seq_padding_type="right")[0]
    near(made[1], want[1]), near(made[0, :, :3], want[0, :, :3])
    assert not made[0, :, 3:].cpu().any()


@on_device(modes=("eager",))
def test_odd_sizes_masks_and_probabilities() -> None:
    """As PyTorch's own attention: a mask of two or three axes beside heads that share keys, dropout of all, no rows."""
    from habana_frameworks.torch.hpex.kernels import FusedSDPA

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 6, 8) for heads in (6, 2, 2))
    for mask in (torch.ones(6, 6).tril(), torch.rand(6, 6, 6), torch.rand(1, 6, 6), torch.rand(2, 1, 6, 6)):
        for each in (mask, mask > 0.4):
            want = F.scaled_dot_product_attention(q, k, v, each, enable_gqa=True)
            given = [t.to("hpu") for t in (q, k, v, each)]
            made, _ = FusedSDPA.apply(*given, return_attn_probs=True)
            torch.testing.assert_close(made.cpu(), want, rtol=1e-4, atol=1e-5)
    x = q.to("hpu")
    call = torch.ops.hpu.sdpa_fwd
    assert call(x, x, x, None, 1.0, 1.0, False, "None", None, "left")[0].cpu().abs().max() == 0
    raises("between 0 and 1", lambda: call(x, x, x, None, 1.5, 1.0, False, "None", None, "left"))
    raises("cannot share 4 heads", lambda: FusedSDPA.apply(x, x[:, :4], x[:, :4], return_attn_probs=True))
    e4m3 = x[:0].to(torch.float8_e4m3fn)
    nothing = torch.ops.hpu.fp8_sdpa_fwd(
        e4m3, e4m3, e4m3, None, 0.0, 1.0, False, "None", *(None,) * 6, True, None, "left"
    )  # fmt: skip
    assert nothing[0].shape == (0, 6, 6, 8) and nothing[3].item() == 0
