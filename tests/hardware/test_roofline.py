"""What a kernel takes at least, by hand from the published peaks."""

from __future__ import annotations

import pytest

from habana_tf.hardware.chips import chip, chips
from habana_tf.hardware.roofline import at_least, said


def test_by_hand() -> None:
    """A matrix product of 8192 x 8192 in bf16: 2 * 8192^3 operations and three matrices of 128 MiB."""
    flops, nbytes = 2 * 8192**3, 3 * 2 * 8192**2
    assert at_least(chip("gaudi2"), "MME", flops, nbytes) == pytest.approx(1.09951e12 / 432e12, rel=1e-4)
    assert at_least(chip("gaudi3"), "MME", flops, nbytes) == pytest.approx(1.09951e12 / 1835e12, rel=1e-4)
    assert at_least(chip("gaudi"), "MME", flops, nbytes) == pytest.approx(402.65e6 / 1e12, rel=1e-4)


def test_bytes_bound_what_computes_little() -> None:
    for name, bandwidth in (("gaudi", 1e12), ("gaudi2", 2.45e12), ("gaudi3", 3.67e12)):
        assert at_least(chip(name), "TPC", 10**6, 8 * 10**6) == pytest.approx(8e6 / bandwidth)
    assert at_least(chip("gaudi3"), "TPC", 10**9, 8 * 10**6) == pytest.approx(1e9 / 28.7e12)


@pytest.mark.parametrize(("flops", "nbytes"), [("2*s0", 8), (8, "4*s0"), ("2*s0", "4*s0"), (None, 8)])
def test_nothing_is_said_of_open_sizes(flops: object, nbytes: object) -> None:
    assert at_least(chip("gaudi2"), "MME", flops, nbytes) is None


def test_a_bound_is_below_what_habanas_cost_model_expects() -> None:
    """It takes the effective bandwidth, and the peak of the arrays' clock or less."""
    for each in chips():
        assert each.published_hbm_bandwidth > each.hbm_bandwidth
        bound = at_least(each, "MME", 10**15, 10**9)
        assert bound is not None and bound <= max(1e15 / each.peak_bf16_flops * 1.002, 1e9 / each.hbm_bandwidth)


def test_it_says_what_it_goes_by() -> None:
    assert said(chip("gaudi2")) == (
        "at least, with every tensor in HBM: the longer of its operations at 432 TFLOPS (MME) and its bytes at 2.45 "
        "TB/s, published peaks of gaudi2; no estimate"
    )
    assert "1835 TFLOPS (MME) or its operations at 28.7 TFLOPS (TPC)" in said(chip("gaudi3"))
    assert said(chip("gaudi")).startswith("at least, with every tensor in HBM: its bytes at 1 TB/s, ")
