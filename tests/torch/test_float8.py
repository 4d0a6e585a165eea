"""8-bit floats on the device. The oracle is PyTorch's own on the CPU, whose float8_e4m3fn ends at 448, as Gaudi3's
does; Gaudi2's ends at 240."""

from __future__ import annotations

import pytest

from tests.child import python
from tests.torch.child import on_device

pytest.importorskip("torch")

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ENDS = torch.tensor(
    [0.0, -0.0, 239, 240, 241, 256, 448, 464, 500, -1e9, 57344, 61440, torch.inf, -torch.inf, torch.nan]
)


def numbers() -> torch.Tensor:
    """Numbers of all sizes, and every tie between two neighbours."""
    codes = torch.arange(256, dtype=torch.uint8)
    known = torch.cat([codes.view(kind).float() for kind in (E4M3, E5M2)])
    known = known[known.isfinite()].unique()
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(1000, generator=generator) * torch.logspace(-6, 6, 1000)
    return torch.cat([ENDS, known, (known[1:] + known[:-1]) / 2, wide])


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    got = got.cpu()
    assert got.dtype == want.dtype
    nan = want.float().isnan()
    return torch.equal(got.float().isnan(), nan) and torch.equal(
        got.view(torch.uint8)[~nan], want.view(torch.uint8)[~nan]
    )


@on_device()
def test_casts_round_as_pytorch_and_end_where_gaudi2_does() -> None:
    for source in (torch.float32, torch.bfloat16):
        x = numbers().to(source)
        assert same(x.to("hpu").to(E5M2), x.to(E5M2))
        assert same(x.to("hpu").to(E4M3), x.float().clamp(-240, 240).to(E4M3))
    whole = torch.arange(-300, 300)
    assert same(whole.to("hpu").to(E4M3), whole.float().clamp(-240, 240).to(E4M3))


@on_device()
def test_codes_that_gaudi2_has_no_number_for_are_infinities_and_nan() -> None:
    for kind in (E4M3, E5M2):
        codes = torch.arange(256, dtype=torch.uint8).view(kind)
        want = codes.float()
        if kind is E4M3:
            size = want.abs()
            want = torch.where(size > 240, torch.where(size == 256, want * torch.inf, torch.nan), want)
        for target in (torch.float32, torch.bfloat16):
            torch.testing.assert_close(
                codes.to("hpu").to(target).cpu(), want.to(target), rtol=0, atol=0, equal_nan=True
            )
        assert torch.equal(codes.to("hpu").cpu().view(torch.uint8), codes.view(torch.uint8))


@on_device()
def test_they_are_moved_viewed_and_written_as_other_types_are() -> None:
    for kind in (E4M3, E5M2):
        on_cpu = torch.randn(6, 8).to(kind)
        x = on_cpu.to("hpu")
        bits = on_cpu.view(torch.uint8)
        assert torch.equal(x.t().contiguous().cpu().view(torch.uint8), bits.t())
        assert torch.equal(torch.cat([x, x[2:4]]).view(torch.uint8).cpu(), torch.cat([bits, bits[2:4]]))
        assert torch.equal(x[:, 1::2].clone().view(torch.uint8).cpu(), bits[:, 1::2])
        place = torch.zeros(6, 8, device="hpu", dtype=kind)
        place[1:3].copy_(x[1:3])
        place[4] = x[4].float()
        want = torch.zeros(6, 8, dtype=kind)
        want[1:3].copy_(on_cpu[1:3])
        want[4] = on_cpu[4]
        assert torch.equal(place.view(torch.uint8).cpu(), want.view(torch.uint8))
        assert x.element_size() == 1 and torch.equal(x.float().cpu(), on_cpu.float()) and str(x.dtype) in repr(x)


def test_gaudi3_ends_where_the_format_does() -> None:
    python(
        """
        import torch
        import habana_frameworks.torch.core
        from tests.torch.test_float8 import E4M3, E5M2, numbers, same
        x = numbers()
        assert same(x.to("hpu").to(E4M3), x.to(E4M3)) and same(x.to("hpu").to(E5M2), x.to(E5M2))
        codes = torch.arange(256, dtype=torch.uint8).view(E4M3)
        torch.testing.assert_close(codes.to("hpu").float().cpu(), codes.float(), rtol=0, atol=0, equal_nan=True)
        """,
        HABANA_SIM_CHIP="gaudi3",
    )


def test_gaudi_has_none_and_says_so() -> None:
    python(
        """
        import torch
        import habana_frameworks.torch.core
        from tests.torch.child import raises
        x, on_cpu = torch.ones(3, device="hpu"), torch.ones(3).to(torch.float8_e5m2)
        for make in (lambda: x.to(torch.float8_e4m3fn), lambda: on_cpu.to("hpu")):
            raises("HPU has no tensors of torch.float8_e", make, TypeError)
        """,
        HABANA_SIM_CHIP="gaudi",
    )
