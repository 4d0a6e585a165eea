"""Experts, weights in 4 bits, caches of beams, rotary positions, norms and softmax in blocks of `torch.ops.hpu`. The
oracles are formulas in float64, or loops over sequences and experts, of stock PyTorch on the CPU."""

from __future__ import annotations

import pytest

from tests.torch.child import on_device, raises

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

E4M3 = torch.float8_e4m3fn
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}


def experts(count: int, size: int, inner: int) -> list[list[torch.Tensor]]:
    return [[torch.randn(shape) * 0.3 for _ in range(count)] for shape in ((size, inner), (size, inner), (inner, size))]


def routed(tokens: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    weights, table = torch.randn(tokens, count).softmax(-1).topk(2)
    return table, weights


def mixed(
    x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, weights: list[list[torch.Tensor]], name: str
) -> torch.Tensor:
    """Token by token, the chosen experts only."""
    out = torch.zeros_like(x, dtype=torch.float64)
    for token, (chosen, shares) in enumerate(zip(table.tolist(), router.tolist(), strict=True)):
        for expert, share in zip(chosen, shares, strict=True):
            w1, w2, w3 = (w[expert].double() for w in weights)
            v = x[token].double()
            out[token] += share * ((ACTIVATIONS[name](v @ w1) * (v @ w2)) @ w3)
    return out


def on_card(weights: list[torch.Tensor], turned: bool = False) -> list[torch.Tensor]:
    return [(w.t().contiguous() if turned else w).to("hpu") for w in weights]


@on_device()
def test_experts() -> None:
    torch.manual_seed(0)
    weights = experts(5, 16, 24)
    x = torch.randn(7, 16)
    table, router = routed(7, 5)
    given = [x.to("hpu"), table.to("hpu"), router.to("hpu")]
    for name in ACTIVATIONS:
        want = mixed(x, table, router, weights, name)
        for turned in (False, True):
            w1, w2, w3 = (on_card(w, turned) for w in weights)
            fused = [torch.cat(pair, 0 if turned else 1) for pair in zip(w1, w2, strict=True)]
            for made in (
                torch.ops.hpu.mixture_of_experts(*given, w1, w2, w3, turned, name, 0, 4),
                torch.ops.hpu.mixture_of_experts(
                    hidden_states=given[0], expert_routing_table=given[1], router_weights=given[2], w12=fused, w3=w3,
                    permuted_weights=turned, activation=name, experts_min=0, experts_max=4,
                ),
            ):  # fmt: skip
                assert made.dtype == x.dtype
                torch.testing.assert_close(made.cpu().double(), want, rtol=1e-4, atol=1e-4)
    w1, w2, w3 = (on_card(w) for w in weights)
    halves = [
        torch.ops.hpu.mixture_of_experts(*given, *(w[a : b + 1] for w in (w1, w2, w3)), False, "silu", a, b)
        for a, b in ((0, 1), (2, 4))
    ]
    torch.testing.assert_close(
        sum(halves).cpu().double(), mixed(x, table, router, weights, "silu"), rtol=1e-4, atol=1e-4
    )
    again = torch.ops.hpu.mixture_of_experts(*given, w1, w2, w3, False, "silu", 0, 4, recomp=False)
    assert torch.equal(again, torch.ops.hpu.mixture_of_experts(*given, w1, w2, w3, False, "silu", 0, 4))
    raises("need 5 weights", lambda: torch.ops.hpu.mixture_of_experts(*given, w1[:2], w2, w3, False, "silu", 0, 4))
    raises("not 'tanh'", lambda: torch.ops.hpu.mixture_of_experts(*given, w1, w2, w3, False, "tanh", 0, 4))
    nothing = [t[:0] for t in given]
    assert torch.ops.hpu.mixture_of_experts(*nothing, w1, w2, w3, False, "silu", 0, 4, True)[1].tolist() == [0] * 5
    made, amax = torch.ops.hpu.mixture_of_experts(*given, w1, w2, w3, False, "silu", 0, 4, True)
    torch.testing.assert_close(made.cpu().double(), mixed(x, table, router, weights, "silu"), rtol=1e-4, atol=1e-4)
    for expert in range(5):
        own = x[(table == expert).any(-1)]
        middle = F.silu(own @ weights[0][expert]) * (own @ weights[1][expert])
        want = middle.abs().max() if len(own) else torch.tensor(0.0)
        torch.testing.assert_close(amax[expert].cpu(), want, rtol=1e-4, atol=1e-5)


@on_device()
def test_experts_in_8_bits() -> None:
    torch.manual_seed(0)
    weights = experts(4, 32, 48)
    x, (table, router) = torch.randn(6, 32), routed(6, 4)
    want = mixed(x, table, router, weights, "silu")
    scales = [[float(w.abs().max()) / 240 for w in group] for group in weights]
    short = [
        [(w / s).to(E4M3) for w, s in zip(group, own, strict=True)] for group, own in zip(weights, scales, strict=True)
    ]
    of_x = float(x.abs().max()) / 240
    given = [(x / of_x).to(E4M3).to("hpu"), table.to("hpu"), router.bfloat16().to("hpu")]
    names = [f"d_scale_w{k}" for k in (1, 2, 3)]
    w = {f"w{k}": on_card(group) for k, group in enumerate(short, 1)}
    how = {"permuted_weights": False, "activation": "silu", "experts_min": 0, "experts_max": 3}
    tensors = {name: [torch.tensor(s).to("hpu") for s in own] for name, own in zip(names, scales, strict=True)}
    numbers = dict(zip(names, scales, strict=True))
    for own, first, middle in (
        (tensors, torch.tensor(of_x).to("hpu"), None),
        (numbers, of_x, None),
        (numbers, of_x, [0.05] * 4),
    ):
        made = torch.ops.hpu.mixture_of_experts(
            *given, **w, d_scale_hidden_states=first, d_scale_intermediate_hidden_states=middle, **own, **how
        )
        assert made.dtype == torch.bfloat16
        error = (made.cpu().double() - want).norm() / want.norm()
        assert error < 0.1, error  # five roundings to 4 bits; a wrong scale makes it 1


@on_device()
def test_weights_in_4_bits() -> None:
    generator = torch.Generator().manual_seed(0)
    for signed, name in ((False, "convert_from_uint4"), (True, "convert_from_int4")):
        x = torch.randint(0, 16, (8, 16), generator=generator)
        zero = torch.randint(0, 4, (2, 16), generator=generator)
        places = torch.arange(0, 32, 4)
        words, packed = (
            (t.reshape(t.shape[0], -1, 8) << places).sum(-1).to(torch.uint32).view(torch.int32) for t in (x, zero)
        )
        true = torch.where(x > 7, x - 16, x) if signed else x
        scale = torch.rand(2, 16, generator=generator) + 0.5
        rows = scale.repeat_interleave(4, 0)
        call = getattr(torch.ops.hpu, name)
        for dtype in (torch.float32, torch.bfloat16):
            given = words.to("hpu"), scale.to(dtype).to("hpu")
            plain = true.to(dtype) * rows.to(dtype)
            assert torch.equal(call(*given, None, dtype).cpu(), plain)
            want = (true - zero.repeat_interleave(4, 0)).to(dtype) * rows.to(dtype)
            assert torch.equal(call(*given, packed.to("hpu"), dtype).cpu(), want)
            assert torch.equal(call(*given, zero.to(dtype).to("hpu"), dtype).cpu(), want)
        assert call(words.to("hpu"), scale.to("hpu"), None, E4M3).dtype == E4M3
    raises("do not divide", lambda: call(words.to("hpu"), torch.ones(3, 16).to("hpu"), None, torch.float32))


@on_device()
def test_caches_of_beams() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32, E4M3):
        kept = torch.randint(0, 16, (3, 4, 2, 10, 5)).to(dtype)
        first, last = torch.tensor([0, 3, 5]), torch.tensor([10, 7, 5])
        beams = torch.tensor([[0, 1, 2, 3], [3, 3, 0, 1], [2, 2, 2, 2]])
        word = (beams * torch.tensor([64, 16, 4, 1])).sum(-1).to(torch.uint8)
        want = kept.clone()
        for k in range(3):
            where = slice(int(first[k]), int(last[k]))
            want[k, :, :, where] = kept[k, beams[k]][:, :, where]
        x = kept.to("hpu")
        given = [t.to("hpu") for t in (first.int(), last.int(), word)]
        made = torch.ops.hpu.kv_reorder(x, *given)
        assert torch.equal(x.cpu().float(), kept.float()) and torch.equal(made.cpu().float(), want.float())
        assert torch.ops.hpu.kv_reorder_(x, *given) is x and torch.equal(x.cpu().float(), want.float())
        rows = torch.arange(24.0).reshape(8, 3).to(dtype)
        y = rows.to("hpu")
        torch.ops.hpu.in_place_interleave_(y)
        assert torch.equal(y.cpu().float(), rows.float()[[0] * 4 + [1] * 4])
    raises("4 beams", lambda: torch.ops.hpu.kv_reorder(torch.zeros(3, 2, 2, 2, device="hpu"), *given))


@on_device()
def test_rotary_positions_and_their_gradient() -> None:
    x = torch.randn(2, 3, 5, 8)
    angles = torch.randn(9, 4)
    ids = torch.tensor([[0, 1, 2, 3, 4], [4, 3, 8, 0, 1]])
    for mode in (0, 1):
        wave = torch.cat([angles, angles], -1) if mode == 0 else angles.repeat_interleave(2, -1)
        sin, cos = wave.sin(), wave.cos()
        pairs = torch.view_as_complex(
            torch.stack(x.double().chunk(2, -1) if mode == 0 else (x.double()[..., ::2], x.double()[..., 1::2]), -1)
        )
        turn = torch.polar(torch.ones_like(angles, dtype=torch.float64), angles.double())
        for at, where in ((None, turn[2:7]), (ids, turn[ids].unsqueeze(1))):
            made = pairs * where
            parts = made.real, made.imag
            want = torch.cat(parts, -1) if mode == 0 else torch.stack(parts, -1).flatten(-2)
            leaf = x.to("hpu").requires_grad_()
            given = [t.to("hpu") for t in (sin, cos)]
            place = None if at is None else at.to("hpu")
            out = torch.ops.hpu.rotary_pos_embedding(leaf, *given, place, 2, mode)
            torch.testing.assert_close(out.detach().cpu().double(), want, rtol=1e-5, atol=1e-5)
            grad = torch.randn_like(x).to("hpu")
            out.backward(grad)
            back = torch.ops.hpu.rotary_pos_embedding_backward(grad, *given, place, 2, mode)
            torch.testing.assert_close(back.cpu(), leaf.grad.cpu(), rtol=1e-5, atol=1e-5)


@on_device()
def test_norms_and_softmax() -> None:
    from habana_frameworks.torch.hpex.normalization import FusedRMSNorm

    x, gamma = torch.randn(4, 5, 16), torch.rand(16) + 0.5
    leaf, weight = (t.clone().double().requires_grad_() for t in (x, gamma))
    want = F.rms_norm(leaf, (16,), weight, 1e-6)
    grad = torch.randn_like(x)
    want.backward(grad.double())
    given = [t.to("hpu") for t in (x, gamma)]
    made, inverse = torch.ops.hpu.rms_norm(*given, 1e-6)
    torch.testing.assert_close(made.cpu().double(), want.detach(), rtol=1e-5, atol=1e-5)
    assert inverse.shape == (4, 5, 1)
    short = x.bfloat16()  # beside a weight in float32: rounded once
    made = torch.ops.hpu.rms_norm(short.to("hpu"), given[1], 1e-6)[0]
    exact = F.rms_norm(short.double(), (16,), gamma.double(), 1e-6)
    torch.testing.assert_close(made.cpu().double(), exact, rtol=2**-8, atol=0)
    assert torch.equal(FusedRMSNorm.apply(short.to("hpu"), given[1], 1e-6).cpu(), made.cpu())
    back, of_gamma = torch.ops.hpu.rms_norm_backward(grad.to("hpu"), *given, inverse, True, 0)
    torch.testing.assert_close(back.cpu().double(), leaf.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(of_gamma.cpu().double(), weight.grad, rtol=1e-4, atol=1e-4)
    mask = torch.randint(0, 2, (4, 5, 16)).float()
    made = torch.ops.hpu.scaled_masked_softmax(given[0], mask.to("hpu"), 0.17)
    torch.testing.assert_close(made.cpu(), (x * 0.17 + mask).softmax(-1))
    torch.testing.assert_close(torch.ops.hpu.custom_softmax(given[0], 0).cpu(), x.softmax(-1))


@on_device()
def test_softmax_of_blocks_is_that_of_their_sequence() -> None:
    torch.manual_seed(0)
    blocks, heads, keys, size = 6, 3, 8, 5
    groups = torch.tensor([0, 1, 0, -1, 2, 0])
    scores, values = torch.randn(blocks, heads, 1, 2, keys) * 3, torch.randn(blocks, heads, 1, keys, size)
    bias = torch.zeros(blocks, 1, 1, 1, keys)
    bias[2, ..., 5:] = -torch.inf
    soft, most, total = torch.ops.hpu.block_softmax(*(t.to("hpu") for t in (scores, bias, groups)))
    assert most.shape == total.shape == (blocks, heads * 2) and soft[3].abs().max().item() == 0
    share = torch.ops.hpu.block_softmax_adjustment(most, total, groups.to("hpu"), 3, [blocks, heads, 1, 2, 1])
    parts = (soft.cpu() * share.cpu()) @ values
    for sequence in range(3):
        own = [k for k in range(blocks) if groups[k] == sequence]
        row = torch.cat([(scores + bias)[k] for k in own], -1).softmax(-1)
        want = row @ torch.cat([values[k] for k in own], -2)
        torch.testing.assert_close(sum(parts[k] for k in own), want, rtol=1e-4, atol=1e-5)
    given = [t.to("hpu") for t in (scores, bias, groups)]
    whole = torch.ops.hpu.block_softmax_const_max(*given, 3, 1.5, output_dtype=torch.float32).cpu()
    eight = torch.ops.hpu.block_softmax_const_max(*given, 3, 1.5, 64.0, E4M3)
    assert torch.ops.hpu.block_softmax_const_max(*given, 3, 1.5).dtype is torch.bfloat16
    assert eight.dtype is E4M3 and not whole[3].any() and not eight.float().cpu()[3].any()
    for sequence in range(3):
        own = [k for k in range(blocks) if groups[k] == sequence]
        want = torch.cat([(scores + bias)[k].double() for k in own], -1).softmax(-1)
        torch.testing.assert_close(torch.cat([whole[k] for k in own], -1).double(), want, rtol=1e-5, atol=1e-7)
        eighths = torch.cat([eight.float().cpu()[k] for k in own], -1)
        assert ((eighths - 64 * want).abs() <= 64 * want / 16 + 2.0**-8).all()
    raises(
        "must be 5-dimensional, got 2", lambda: torch.ops.hpu.block_softmax_adjustment(most, total, groups.to("hpu"), 3)
    )


@on_device()
def test_softmax_in_steps_is_that_of_the_whole() -> None:
    """With numbers of rows by themselves, and in Gaudi3's vectors: 8 of each 64 elements."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 11, 20)
    x[1, 2, 4] = -torch.inf
    x[0, 0, 0, :8] = -torch.inf
    want = torch.softmax(x.double(), -1).nan_to_num(0.0)
    for shape in ((2, 3, 11), (2, 3, 128)):
        most, total = torch.full(shape, -torch.inf, device="hpu"), torch.zeros(shape, device="hpu")
        parts: list[torch.Tensor] = []
        for part in x.to("hpu").split([8, 12], -1):
            made, most, total, again = torch.ops.hpu.softmax_fa2(part, inputM=most, inputL=total)
            assert most.shape == total.shape == again.shape == shape and made.dtype == x.dtype
            own = again if shape[-1] == 11 else again.reshape(2, 3, 2, 64)[..., :8].flatten(-2)[..., :11]
            parts = [*(p * own.unsqueeze(-1) for p in parts), made]
        sums = total if shape[-1] == 11 else total.reshape(2, 3, 2, 64)[..., :8].flatten(-2)[..., :11]
        got = torch.cat(parts, -1) / sums.clamp(min=1e-30).unsqueeze(-1)
        torch.testing.assert_close(got.cpu().double(), want, rtol=1e-5, atol=1e-7)
    given = {"inputM": most, "inputL": total}
    raises("only last input dimension", lambda: torch.ops.hpu.softmax_fa2(x.to("hpu"), dim=1, **given))
    raises("no inputs in 8 bits", lambda: torch.ops.hpu.softmax_fa2(x.to("hpu").to(E4M3), **given), NotImplementedError)
