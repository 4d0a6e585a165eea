"""Times of collectives, beside those that were measured on cards and by formulas of their own."""

from __future__ import annotations

import pytest

from habana_tf.card.model.collective_time import collective_seconds
from habana_tf.card.model.network import sum_seconds
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip

HOP = 5e-6


def test_measured_on_eight_gaudi3() -> None:
    """docs.habana.ai, Collectives_Performance: hccl_demo, float, 1,000 iterations."""
    card, machine = chip("gaudi3"), box(chip("gaudi3"))
    all_reduce = collective_seconds(card, machine, "all_reduce", 256 << 20, range(8), 0)
    assert all_reduce == pytest.approx(0.9158e-3, rel=0.05)
    all_gather = collective_seconds(card, machine, "all_gather", 8 * (16 << 20), range(8), 0)
    assert all_gather == pytest.approx(0.2306e-3, rel=0.05)


def test_measured_on_eight_gaudi2() -> None:
    """HabanaAI/vllm-fork, guide to DeepSeek-R1, hccl_demo with 1,000 iterations: 147.58 GB/s of 32 MiB."""
    card, machine = chip("gaudi2"), box(chip("gaudi2"))
    all_reduce = collective_seconds(card, machine, "all_reduce", 32 << 20, range(8), 0)
    assert all_reduce == pytest.approx((32 << 20) / 147.577e9, rel=0.02)


@pytest.mark.parametrize("cards", [2, 8, 16, 64])
@pytest.mark.parametrize("name", ["gaudi2", "gaudi3"])
def test_a_sum_over_whole_boxes_is_that_of_gradients(name: str, cards: int) -> None:
    card, machine = chip(name), box(chip(name))
    made = collective_seconds(card, machine, "all_reduce", 1 << 30, range(cards), HOP)
    assert made == pytest.approx(sum_seconds(card, machine, 1 << 30, cards, HOP))
    halves = [
        collective_seconds(card, machine, kind, 1 << 30, range(cards), HOP) for kind in ("all_gather", "reduce_scatter")
    ]
    assert sum(halves) == pytest.approx(made)


def test_where_ranks_sit_decides() -> None:
    card, machine = chip("gaudi2"), box(chip("gaudi2"))

    def seconds(kind: str, ranks: list[int]) -> float:
        return collective_seconds(card, machine, kind, 1 << 30, ranks, 0)

    link, leave = 3 * card.port_bandwidth, 3 * card.port_bandwidth
    assert seconds("send", [0, 1]) == pytest.approx((1 << 30) / link)
    assert seconds("send", [0, 8]) == pytest.approx((1 << 30) / leave)
    assert seconds("all_gather", [0, 8, 16, 24]) == pytest.approx(0.75 * (1 << 30) / leave)
    assert seconds("all_to_all", list(range(8))) == pytest.approx((1 << 30) / 8 / link)
    assert seconds("all_to_all", list(range(16))) > 4 * seconds("all_to_all", list(range(8)))
    assert seconds("all_reduce", [3]) == 0 and seconds("barrier", [0, 1]) == 0
