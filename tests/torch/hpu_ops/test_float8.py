"""Casts, products, softmax and scales of `torch.ops.hpu` in 8 bits. The oracles are PyTorch's casts on the CPU and
float64; what is compared with the formula of another device is compared in bits."""

from __future__ import annotations

import math

import pytest

from tests.child import python
from tests.torch.child import on_device, raises

pytest.importorskip("torch")

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ENDS = {E4M3: 240.0, E5M2: 57344.0}


def cast(x: torch.Tensor, scale: torch.Tensor | float, kind: torch.dtype, end: float) -> torch.Tensor:
    """x * scale as the card rounds it: once in the type of x, once in 8 bits."""
    factor = torch.as_tensor(scale).to(x.dtype)
    return (x * factor).float().clamp(-end, end).to(kind)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.cpu().view(torch.uint8), b.cpu().view(torch.uint8))


@on_device()
def test_casts_with_scales_of_all_kinds() -> None:
    vector = torch.rand(8) * 2 + 0.5
    for dtype in (torch.float32, torch.bfloat16):
        x = (torch.randn(6, 8) * 200).to(dtype)
        for kind, end in ENDS.items():
            for scale, shape, factor in (
                (None, None, 1.0), (0.75, None, 0.75), (torch.tensor(1.3), None, 1.3), (vector, None, vector),
                (vector.tolist(), [1, 8], vector), (vector[:6], [6, 1], vector[:6, None]),
            ):  # fmt: skip
                want = cast(x, factor, kind, end)
                given = scale.to("hpu") if isinstance(scale, torch.Tensor) else scale
                made, amax = torch.ops.hpu.cast_to_fp8_v2(x.to("hpu"), given, False, True, kind, shape)
                assert same(made, want) and amax.dim() == 0 and amax.item() == x.abs().max().item()
                on_cpu, none = torch.ops.hpu.cast_to_fp8_v2(x, scale, False, False, kind, shape)
                assert same(on_cpu, want) and none.shape == (0,)
                back = torch.ops.hpu.cast_from_fp8(made, given, dtype, shape)
                factor_of_type = torch.as_tensor(factor).to(dtype)
                assert torch.equal(back.cpu(), want.to(dtype) * factor_of_type)


@on_device()
def test_codes_beyond_the_chips_end_are_nan_in_products() -> None:
    """Also in batches, whose axes are taken apart."""
    x = torch.tensor([[1.0, 240.0, -240.0], [1.0, 256.0, 0.0]]).to(E4M3)
    y = torch.ones(3, 4).to(E4M3)
    for batch in ((), (2,), (2, 5)):
        a, b = (t.expand(*batch, *t.shape).contiguous().to("hpu") for t in (x, y))
        made = torch.ops.hpu.fp8_gemm_v2(a, False, b, False, None, torch.float32).cpu()
        assert (made[..., 0, :] == 1).all() and made[..., 1, :].isnan().all()


@on_device()
def test_casts_saturate_and_keep_nan() -> None:
    x = torch.tensor([1e5, -1e5, torch.inf, -torch.inf, torch.nan, 0.0, -0.0])
    for kind, end in ENDS.items():
        made = torch.ops.hpu.cast_to_fp8_v2(x.to("hpu"), None, False, False, kind)[0].float().cpu()
        assert made.tolist()[:4] == [end, -end, end, -end] and made[4].isnan()
        assert made[5:].signbit().tolist() == [False, True]


@on_device()
def test_results_into_tensors_that_are_given() -> None:
    x, w = torch.randn(4, 6) * 100, torch.randn(6, 3).to(E5M2)
    out, amax = torch.empty(4, 6, dtype=E5M2, device="hpu"), torch.zeros(1, device="hpu")
    made = torch.ops.hpu.cast_to_fp8(x.to("hpu"), torch.tensor(2.0, device="hpu"), False, out, amax)
    assert made[0] is out and same(out, cast(x, 2.0, E5M2, ENDS[E5M2])) and amax.item() == x.abs().max().item()
    place, old = torch.empty(4, 3, device="hpu"), torch.ones(4, 3, device="hpu")
    args = out, False, w.to("hpu"), False, old, torch.float32, None, None, None, True
    assert torch.ops.hpu.fp8_gemm(*args, place) is place
    torch.testing.assert_close(place.cpu().double(), out.cpu().double() @ w.double() + 1)


@on_device()
def test_chance_rounds_to_the_neighbours_with_the_right_mean() -> None:
    for kind, below, above in ((E4M3, 16.0, 18.0), (E5M2, 16.0, 20.0), (E4M3, 2.0**-9, 2.0**-8)):
        x = torch.full((20_000,), below + 0.3 * (above - below), device="hpu")
        torch.manual_seed(1)
        made = torch.ops.hpu.cast_to_fp8_v2(x, None, True, False, kind)[0].float().cpu()
        assert made.unique().tolist() == [below, above]
        assert abs((made == above).float().mean().item() - 0.3) < 0.02
        torch.manual_seed(1)
        assert torch.equal(torch.ops.hpu.cast_to_fp8_v2(x, None, True, False, kind)[0].float().cpu(), made)
    exact = torch.tensor([0.0, 1.5, -240.0, 1e9], device="hpu")
    made = torch.ops.hpu.cast_to_fp8_v2(exact, None, True, False, E4M3)[0]
    assert made.float().cpu().tolist() == [0.0, 1.5, -240.0, 240.0]


@on_device()
def test_products_are_sums_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    for kind in ENDS:
        for a, b, turned in (
            ((5, 12), (12, 7), (False, False)), ((12, 5), (12, 7), (True, False)), ((5, 12), (7, 12), (False, True)),
            ((2, 1, 4, 6), (1, 3, 6, 8), (False, False)), ((4, 6), (3, 6, 8), (False, False)),
            ((6,), (6,), (False, False)), ((2, 3, 6), (6,), (False, False)), ((6,), (2, 6, 4), (False, False)),
        ):  # fmt: skip
            x, y = (torch.randn(shape, generator=generator).to(kind) for shape in (a, b))
            wide = [t.double().mT if turn else t.double() for t, turn in zip((x, y), turned, strict=True)]
            want = wide[0] @ wide[1] * 0.5 * 3.0
            for dtype in (torch.float32, torch.bfloat16):
                made = torch.ops.hpu.fp8_gemm_v2(x.to("hpu"), turned[0], y.to("hpu"), turned[1], None, dtype, 0.5, 3.0)
                assert made.dtype == dtype and made.shape == want.shape
                torch.testing.assert_close(
                    made.cpu().double(), want, rtol=1e-5 if dtype.itemsize == 4 else 4e-3, atol=1e-4
                )
    x, y = torch.randn(5, 12).to(E4M3), torch.randn(12, 7).to(E4M3)
    scales, bias, d = torch.rand(7) + 0.5, torch.randn(7), torch.randn(5, 7)
    want = x.double() @ y.double() * 0.25 * scales + bias + d
    given = [t.to("hpu") for t in (torch.tensor(0.25), scales, bias, d, x, y)]
    made = torch.ops.hpu.fp8_gemm_v2(given[4], False, given[5], False, given[3], torch.float32, *given[:3], True)
    torch.testing.assert_close(made.cpu().double(), want, rtol=1e-5, atol=1e-4)
    listed = torch.ops.hpu.fp8_gemm_v2(given[4], False, given[5], False, None, torch.float32, [0.25], scales.tolist())
    torch.testing.assert_close(listed.cpu().double(), want - bias - d, rtol=1e-5, atol=1e-4)


@on_device()
def test_arithmetic_on_them_is_that_of_float32_rounded_once() -> None:
    x, y = torch.randn(50).to(E4M3), torch.randn(50).to(E4M3)
    for kind, name in ((E4M3, "mul"), (E4M3, "add"), (E5M2, "sub")):
        a, b = x.float().to(kind), y.float().to(kind)
        made = getattr(torch, name)(a.to("hpu"), b.to("hpu"))
        assert same(made, getattr(torch, name)(a.float(), b.float()).to(kind))


@on_device()
def test_softmax_convolution_sum_and_scales() -> None:
    x = torch.rand(3, 4, 6).bfloat16() * 4
    add = torch.rand(3, 1, 6).bfloat16()
    soft = torch.softmax(x.double() * 0.1 * 0.05 + add.double(), -1)
    made = torch.ops.hpu.softmax_fp8(x.to("hpu"), -1, 0.05, 2.5, 0.1, add.to("hpu"))
    assert made.dtype == E4M3
    torch.testing.assert_close(made.cpu().double(), soft * 2.5, rtol=2**-4, atol=1e-3)
    made = torch.ops.hpu.softmax_fp8(x.to("hpu"), -1)
    torch.testing.assert_close(made.cpu().double(), torch.softmax(x.double(), -1), rtol=2**-8, atol=1e-3)
    with pytest.raises(RuntimeError, match="need input_scale"):
        torch.ops.hpu.softmax_fp8(x.to(E4M3).to("hpu"), -1)
    picture, weight, bias = torch.randn(2, 3, 8, 8).to(E4M3), torch.randn(4, 3, 2, 2).to(E4M3), torch.randn(4)
    want = torch.conv2d(picture.double(), weight.double()) * 2 * 3 + bias.double().reshape(-1, 1, 1)
    on_card = [t.to("hpu") for t in (picture, weight, bias)]
    made = torch.ops.hpu.conv2d_fp8(*on_card, [1, 1], [0, 0], [1, 1], 1, torch.float32, 2.0, 3.0)
    torch.testing.assert_close(made.cpu().double(), want, rtol=1e-4, atol=1e-4)
    total = torch.ops.hpu.sum_fp8(on_card[0], [1, 2], True, torch.float32)
    torch.testing.assert_close(total.cpu().double(), picture.double().sum([1, 2], True), rtol=1e-5, atol=1e-4)
    for mode, want in ((1, x.abs().max()), (2, x.abs().amax(1, keepdim=True))):
        scale = torch.ops.hpu.calculate_scale_for_cast(x.to("hpu"), mode, 0, 1, True, 240.0, 0.5)
        torch.testing.assert_close(scale.cpu(), want / 120.0)
        power = torch.ops.hpu.calculate_scale_for_cast(x.to("hpu"), mode, 1, 1, True, 240.0, 0.5)
        assert torch.equal(power.cpu().float(), torch.exp2(torch.ceil(torch.log2((want / 120.0).float()))))


@on_device()
def test_what_the_bridge_refuses() -> None:
    x = torch.ones(3, device="hpu").to(E4M3)
    call = torch.ops.hpu.cast_to_fp8_v2
    raises("must have no amax for float8", lambda: call(x, None, False, True, E4M3))
    raises("but are Float8_e4m3fn and Float8_e5m2", lambda: call(x, None, False, False, E5M2))
    raises("maxMode is 0, 1 or 2", lambda: torch.ops.hpu.calculate_scale_for_cast(x, 3, 0))


def test_compiled_and_on_gaudi3() -> None:
    python(
        """
        import torch
        import habana_frameworks.torch.core
        from tests.torch.hpu_ops.test_float8 import E4M3, cast, same

        def step(x, w, scale):
            y = torch.ops.hpu.cast_to_fp8_v2(x, scale, False, False, E4M3)[0]
            return y, torch.ops.hpu.fp8_gemm_v2(y, False, w, False, None, torch.bfloat16, scale.reciprocal(), None)

        x, w, scale = torch.randn(6, 8) * 300, torch.randn(8, 5).to(E4M3), torch.tensor(0.7)
        compiled = torch.compile(step, backend="hpu_backend")
        y, product = compiled(x.to("hpu"), w.to("hpu"), scale.to("hpu"))
        want = cast(x, scale, E4M3, 448.0)
        assert same(y, want) and want.float().abs().max() > 240
        exact = want.double() @ w.double() / 0.7
        torch.testing.assert_close(product.cpu().double(), exact, rtol=1e-2, atol=1e-2)
        """,
        imported=True,
        HABANA_SIM_CHIP="gaudi3",
    )


@on_device()
def test_scales_of_blocks_and_their_products() -> None:
    """Casts beside float64: no code is further from a number than its neighbours. Products beside those of what codes
    and scales stand for."""
    torch.manual_seed(0)
    x = torch.randn(3, 8, 12) * torch.logspace(-6, 6, 8).reshape(8, 1)
    x[0, :, 4:8] = 0
    codes = torch.arange(256, dtype=torch.uint8).view(E4M3).double()
    grid = codes[codes.abs() <= 240].unique()
    for height, width in ((1, 4), (4, 1), (4, 4), (1, 12)):
        for kind in (torch.float32, torch.bfloat16):
            made, scale = torch.ops.hpu.cast_to_fp8_just_in_time(x.to("hpu"), [height, width], E4M3, kind)
            assert (made.dtype, scale.dtype, scale.shape) == (E4M3, kind, (3, 8 // height, 12 // width))
            blocks = x.double().reshape(3, 8 // height, height, 12 // width, width)
            largest = blocks.abs().amax((2, 4))
            got = scale.cpu().double()
            torch.testing.assert_close(got, torch.where(largest > 0, largest / 240, 1), rtol=2**-8, atol=0)
            exact = (blocks / got[:, :, None, :, None]).reshape(x.shape)
            nearest = grid[(exact.unsqueeze(-1) - grid).abs().argmin(-1)]
            distance = (exact - made.cpu().double()).abs() - (exact - nearest).abs()
            assert distance.max() < 1e-4
    plain, scale = torch.ops.hpu.cast_to_fp8_just_in_time(x.bfloat16().to("hpu"), [1, 12])
    assert plain.dtype == E4M3 and scale.dtype == torch.bfloat16
    for wrong, shape in (("do not divide", [1, 5]), ("do not divide", [0, 4]), ("rows, columns or squares", [2, 4])):
        raises(wrong, lambda shape=shape: torch.ops.hpu.cast_to_fp8_just_in_time(x.to("hpu"), shape))

    a, b = x[1, :, :8] * 1e-3, torch.randn(10, 8) * torch.tensor([1.0] * 4 + [1e3] * 4)
    padded = torch.zeros(12, 8)
    padded[:10] = b
    of_a, a_scale = torch.ops.hpu.cast_to_fp8_just_in_time(a.to("hpu"), [1, 4], scale_dtype=torch.float32)
    of_b, b_scale = torch.ops.hpu.cast_to_fp8_just_in_time(padded.to("hpu"), [4, 4])
    for name in ("squares", "columns"):
        turned = b_scale.t() if name == "squares" else b_scale.t().repeat_interleave(4, 1)[:, :10]
        made = torch.ops.hpu.fp8_gemm_v2(
            A=of_a, trans_A=False, B=of_b[:10], trans_B=True, D=None, out_dtype=torch.float32, A_scale_inv=a_scale,
            B_scale_inv=turned, bias=torch.ones(10, device="hpu"), accumulate=False,
        )  # fmt: skip
        wide_a = of_a.cpu().double() * a_scale.cpu().double().repeat_interleave(4, 1)
        each = b_scale.cpu().double().repeat_interleave(4, 0).repeat_interleave(4, 1)[:10]
        want = wide_a @ (of_b.cpu().double()[:10] * each).T + 1
        torch.testing.assert_close(made.cpu().double(), want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
    near = (made.cpu() - 1 - a @ b.T).norm() / (a @ b.T).norm()
    assert near < 0.05


@on_device()
def test_scales_are_exact_powers_of_two() -> None:
    """Of numbers that are powers of two, and just beside them: math.frexp says which is the next."""
    for kind, step in ((torch.float32, 2.0**-23), (torch.bfloat16, 2.0**-7)):
        powers = torch.exp2(torch.arange(-125.0, 127.0, dtype=torch.float64))
        x = torch.cat([powers, powers * (1 + step), powers * (1 - step / 2)]).to(kind)
        want = [math.ldexp(1.0, e - (m == 0.5)) for m, e in map(math.frexp, x.tolist())]
        made = torch.ops.hpu.calculate_scale_for_cast(x.to("hpu"), 0, 1)
        assert made.dtype == kind and made.tolist() == want
        assert torch.log2(powers.to(kind).to("hpu")).tolist() == [*range(-125, 127)]
    odd = torch.ops.hpu.calculate_scale_for_cast(torch.tensor([0.0, torch.inf, torch.nan, -1.0], device="hpu"), 0, 1)
    assert str(odd.tolist()) == "[0.0, inf, nan, nan]"


@on_device()
def test_nothing_is_cast_and_wrong_types_are_refused() -> None:
    empty = torch.ones(0, 4, device="hpu")
    made, amax = torch.ops.hpu.cast_to_fp8_v2(empty, 2.0, False, True, E4M3)
    assert made.shape == (0, 4) and amax.item() == 0 and amax.dtype == torch.float32
    for kind in (torch.float32, torch.int8):
        raises("are 8-bit floats", lambda kind=kind: torch.ops.hpu.cast_to_fp8_v2(empty, 1.0, False, False, kind))
    raises("are 8-bit floats", lambda: torch.ops.hpu.cast_to_fp8_just_in_time(empty, [1, 4], torch.float32))
