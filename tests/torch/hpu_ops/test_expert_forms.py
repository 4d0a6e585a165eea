"""Experts with biases, with scales of tokens, channels and blocks, and of MXFP4. The oracles are loops over tokens in
float64, on the CPU."""

from __future__ import annotations

import pytest

from tests.torch.child import on_device, raises

pytest.importorskip("torch")

import torch

from tests.torch.hpu_ops.test_others import E4M3, experts, mixed, on_card, routed

HOW = {"activation": "silu", "experts_min": 0, "experts_max": 3}
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def with_biases(
    x: torch.Tensor, table: torch.Tensor, router: torch.Tensor, weights: list[list[torch.Tensor]], alpha: float = 1.702
) -> tuple[torch.Tensor, torch.Tensor]:
    """GPT-OSS's experts of w12, w3 and their biases: the sum, and the largest size of each one's and token's middle."""
    out, sizes = torch.zeros(x.shape, dtype=torch.float64), torch.zeros(len(weights[0]), len(x), dtype=torch.float64)
    for token, (chosen, shares) in enumerate(zip(table.tolist(), router.tolist(), strict=True)):
        for expert, share in zip(chosen, shares, strict=True):
            w12, w3, b12, b3 = (w[expert].double() for w in weights)
            made = x[token].double() @ w12 + b12
            gate, up = made[0::2].clamp(max=7.0), made[1::2].clamp(-7.0, 7.0)
            middle = (up + 1) * gate / (1 + torch.exp(-alpha * gate))
            out[token] += share * (middle @ w3 + b3)
            sizes[expert, token] = middle.abs().max()
    return out, sizes


def close(made: torch.Tensor, want: torch.Tensor, error: float) -> None:
    assert ((made.cpu().double() - want).norm() / want.norm()).item() < error


@on_device()
def test_biases_limits_and_what_is_measured() -> None:
    torch.manual_seed(0)
    weights = [[torch.randn(shape) for _ in range(4)] for shape in ((16, 48), (24, 16), (48,), (16,))]
    x, (table, router) = torch.randn(7, 16), routed(7, 4)
    want, sizes = with_biases(x, table, router, weights)
    assert (sizes > 7.0 * 8.0 * 0.5).any()  # limits matter
    given = [x.to("hpu"), table.to("hpu"), router.to("hpu")]
    for turned in (False, True):
        lists = [on_card(w, turned and w[0].dim() == 2) for w in weights]
        how = {"permuted_weights": turned, "experts_min": 0, "experts_max": 3, "chunk_size": 2, "total_experts": 4}
        made = torch.ops.hpu.mixture_of_experts.bias_fused_weights(*given, *lists, **how)
        torch.testing.assert_close(made.cpu().double(), want, rtol=1e-4, atol=1e-4)
    measure = torch.ops.hpu.mixture_of_experts.measurement_bias_fused_weights
    for by_token in (False, True):
        made, amax = measure(*given, *lists, measure_per_token=by_token, **how)
        torch.testing.assert_close(made.cpu().double(), want, rtol=1e-4, atol=1e-4)
        most = sizes if by_token else sizes.amax(-1)
        torch.testing.assert_close(amax.cpu().double(), most, rtol=1e-4, atol=1e-4)
    other, _ = with_biases(x, table, router, weights, 0.5)
    made = torch.ops.hpu.mixture_of_experts.bias_fused_weights(*given, *lists, alpha=0.5, **how)
    torch.testing.assert_close(made.cpu().double(), other, rtol=1e-4, atol=1e-4)


@on_device()
def test_scales_of_tokens_channels_and_blocks() -> None:
    torch.manual_seed(0)
    weights = experts(4, 32, 48)
    x, (table, router) = torch.randn(6, 32), routed(6, 4)
    x[2] *= 50  # tokens of unlike sizes: one scale for all of them would lose the others
    want = mixed(x, table, router, weights, "silu")
    by_token = x.abs().amax(-1) / 240
    given = [(x / by_token[:, None]).to(E4M3).to("hpu"), table.to("hpu"), router.bfloat16().to("hpu")]
    scales = [[w.abs().amax(0) / 240 for w in group] for group in weights]
    short = [
        [(w / s).to(E4M3) for w, s in zip(group, own, strict=True)] for group, own in zip(weights, scales, strict=True)
    ]
    fused, of_fused = ([torch.cat(pair, -1) for pair in zip(*both[:2], strict=True)] for both in (short, scales))
    lists = [on_card(each) for each in (fused, short[2])]
    own = [on_card(each) for each in (of_fused, scales[2])]
    call = torch.ops.hpu.mixture_of_experts.fp8_fused_weights_dynamic
    for first in (by_token, by_token[:, None]):
        made = call(*given, *lists, first.to("hpu"), *own, permuted_weights=False, **HOW)
        assert made.dtype == torch.bfloat16
        for token in range(6):
            close(made[token], want[token], 0.1)
    numbers = [[float(w.abs().max()) / 240 for w in group] for group in weights]
    x[2] /= 50
    of_x = float(x.abs().max()) / 240
    given[0] = (x / of_x).to(E4M3).to("hpu")
    one = [
        on_card([(w / s).to(E4M3) for w, s in zip(group, each, strict=True)])
        for group, each in zip(weights, numbers, strict=True)
    ]
    made = torch.ops.hpu.mixture_of_experts.fp8_scalars_dynamic(
        *given, *one, of_x, *numbers, permuted_weights=False, **HOW
    )
    close(made, mixed(x, table, router, weights, "silu"), 0.1)
    blocks = []
    for group in weights:
        parts = []
        for w in group:
            rows, columns = -(-w.shape[0] // 20), -(-w.shape[1] // 20)
            scale = torch.rand(rows, columns) + 0.5
            each = scale.repeat_interleave(20, 0).repeat_interleave(20, 1)[: w.shape[0], : w.shape[1]]
            parts.append(((w / each).to(E4M3), scale, (w / each).to(E4M3).double() * each.double()))
        blocks.append(parts)
    packed, scale, wide = ([[part[k] for part in parts] for parts in blocks] for k in range(3))
    given[0] = x.to("hpu")
    made = torch.ops.hpu.mixture_of_experts.fp8_blockwise(
        *given, *(on_card(w) for w in packed), *(on_card(s) for s in scale), 20, False, *HOW.values()
    )
    close(made, mixed(x, table, router, wide, "silu"), 2**-8)


@on_device()
def test_mxfp4() -> None:
    torch.manual_seed(0)
    names = {"w12": (96, 64), "w3": (64, 48)}
    packed, scale, wide = {}, {}, {}
    for name, (rows, columns) in names.items():
        codes = [torch.randint(0, 16, (rows, columns)) for _ in range(3)]
        packed[name] = on_card([(c[:, ::2] | c[:, 1::2] << 4).to(torch.uint8) for c in codes])
        powers = [torch.randint(118, 124, (rows, -(-columns // 32))) for _ in range(3)]
        scale[name] = on_card([p.to(torch.uint8) for p in powers])
        each = [torch.exp2(p.double() - 127).repeat_interleave(32, -1)[:, :columns] for p in powers]
        wide[name] = [(FP4[c].double() * p).t() for c, p in zip(codes, each, strict=True)]
    x, (table, router) = torch.randn(6, 64).bfloat16(), routed(6, 3)
    router = router.bfloat16()
    given = [x.to("hpu"), table.to("hpu"), router.to("hpu")]
    halves = [*([w[:, k * 48 : (k + 1) * 48] for w in wide["w12"]] for k in (0, 1)), wide["w3"]]
    how = {"block_size": 32, "permuted_weights": True, "experts_min": 0, "experts_max": 2}
    call = torch.ops.hpu.mixture_of_experts.mxfp4_fused_weights
    made = call(*given, *packed.values(), *scale.values(), activation="silu", is_fp4=True, **how)
    assert made.dtype == torch.bfloat16
    close(made, mixed(x, table, router, halves, "silu"), 0.01)
    biases = [[torch.randn(size) for _ in range(3)] for size in (96, 64)]
    want, _ = with_biases(x, table, router, [*wide.values(), *biases])
    call_biased = torch.ops.hpu.mixture_of_experts.bias_mxfp4_fused_weights
    made = call_biased(*given, *packed.values(), *(on_card(b) for b in biases), *scale.values(), **how)
    close(made, want, 0.01)
    raises(
        "MXFP4 has is_fp4=True",
        lambda: call(*given, *packed.values(), *scale.values(), activation="silu", is_fp4=False, **how),
    )
    from habana_tf.torch.hpu_ops.packed4 import from_mxfp4

    byte = torch.arange(256, dtype=torch.uint8).reshape(1, 256)
    powers = torch.tensor([[0, 1, 127, 128, 200, 253, 254, 255]], dtype=torch.uint8)
    made = from_mxfp4(byte.to("hpu"), powers.to("hpu"), 64)[0].cpu().double()
    places = torch.arange(512) // 64
    codes = torch.stack([byte[0] & 15, byte[0] >> 4], -1).flatten().long()
    exact = FP4[codes].double() * torch.exp2(powers[0].double() - 127)[places]
    largest = torch.finfo(torch.bfloat16).max
    exact = torch.where(exact.abs() > largest, exact.sign() * torch.inf, exact)
    exact[places == 0], exact[places == 7] = 0, torch.nan
    torch.testing.assert_close(made, exact, rtol=0, atol=2.0**-127, equal_nan=True)  # denormal numbers count as 0


@on_device()
def test_what_packed_weights_come_apart_into_stays_on_the_device() -> None:
    import habana_tf

    words = torch.randint(-(2**31), 2**31, (8, 2), dtype=torch.int64).to(torch.int32)
    for kind in (torch.uint8, torch.int16, torch.int32, torch.int64):
        x, places = words.to(kind), torch.tensor([0, 4]).to(kind)
        on_card, of_places = x.to("hpu"), places.to("hpu")
        for made, want in (
            (on_card >> 3, x >> 3), (on_card << 2, x << 2), (on_card >> of_places, x >> places),
            (on_card.__ilshift__(1), x << 1),
        ):  # fmt: skip
            assert made.dtype == want.dtype and torch.equal(made.cpu(), want)
    torch.ops.hpu.convert_from_uint4(words.to("hpu"), torch.ones(8, 16).to("hpu"), None, torch.bfloat16)
    assert not [each for each in habana_tf.placement_report().cpu_ops if "shift" in each.op]
