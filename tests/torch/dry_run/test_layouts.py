"""Ways to lay the training of a language model on cards: lines beside whole recordings, bytes by hand."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    from transformers import LlamaConfig

    import habana_tf
    from habana_tf.card.model.cluster_time import work
    from habana_tf.card.prediction.layouts import Layout, LayoutPlan
    from habana_tf.card.prediction.ranks import Collective
    from habana_tf.dry_run import layouts
    from habana_tf.dry_run.ranks import predict_ranks
    from habana_tf.hardware.chips import chip
    from habana_tf.torch.dry_run import language_step
    from habana_tf.torch.dry_run.rank import Board, Ended
    from habana_tf.torch.dry_run.world import pretended

LAZY = ("lazy",)


def config(layers: int = 6, **given: Any) -> Any:
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
             "vocab_size": 1000, **given}  # fmt: skip
    return LlamaConfig(num_hidden_layers=layers, **sizes)


def search(cards: int, batch: int = 16) -> Any:
    return layouts._Search(config(), layouts.Jobs("gaudi2", None, layouts.LATEST), cards, 256, batch)


@on_device(modes=LAZY)
def test_lines_through_two_sizes_are_what_the_whole_takes() -> None:
    found = search(2)
    short = found._row(Layout(1, 1, 2, 3, 1, 4, "all", "mixed"))
    whole = found._row(short.layout, whole=True)
    assert short is not None and whole is not None and not short.whole and whole.whole
    assert abs(short.seconds / whole.seconds - 1) < 0.03
    idle = chip("gaudi2").idle_memory_bytes
    assert -0.02 < (short.memory - idle) / (whole.memory - idle) - 1 < 0.12  # too much rather than too little


def collectives(at: Layout, layers: int) -> Counter[tuple[str, int]]:
    """Of the first rank's step, by kind and bytes."""
    program = language_step.program(config(), at, 256, layers, (at.micro_batches,) * 2)
    found = predict_ranks(program, at.cards, range(0, at.cards, at.cards // at.pp), "gaudi2")
    made = (span.event for span in found.spans if span.rank == 0)
    return Counter((e.kind, e.nbytes) for e in made if isinstance(e, Collective))


@on_device(modes=LAZY)
def test_cards_that_share_layers_sum_hidden_values_four_times_a_layer_and_nothing_larger() -> None:
    """As Megatron does: behind attention and behind the MLP, and the gradients of what both read; queries, keys and
    values together. Logits stay where their words are."""
    one, two = (collectives(Layout(2, 1, 1, 0, 1, 1, "none", "bf16"), layers) for layers in (1, 2))
    hidden = 2 * 256 * 512
    assert two - one == {("all_reduce", hidden): 4} and max(nbytes for _, nbytes in two) == hidden


@on_device(modes=LAZY)
def test_cards_that_share_the_sequence_gather_and_scatter_what_others_sum() -> None:
    """Half of the tokens each outside attention and MLP, whose norms' gradients are summed once a step."""
    for precision in ("bf16", "fp8"):
        at = Layout(2, 1, 1, 0, 2, 3, "none", precision, sequence=True)
        one, two = (collectives(at, layers) for layers in (1, 2))
        hidden, norm = 2 * 2 * 256 * 512, 2 * 512
        more = two - one
        assert more["all_gather", hidden] == more["reduce_scatter", hidden] == 3 * 4
        assert one["all_reduce", 3 * norm] == two["all_reduce", 5 * norm] == 1
        assert not any(kind == "all_reduce" and nbytes >= hidden for kind, nbytes in two)
    assert collectives(Layout(2, 2, 1, 0, 1, 3, "none", "fp8", sequence=True), 2)["send", 256 * 512] == 3


@on_device(modes=LAZY)
def test_cards_share_the_sequence_where_less_does_not_fit() -> None:
    found, at = search(2, 16), Layout(2, 1, 1, 0, 16, 1, "none", "bf16")
    whole, part = (
        layouts.recorded(found.jobs, found.config, replace(at, sequence=part), found.length, (6,), (1,)).points(
            found.jobs
        )[0][2]
        for part in (False, True)
    )
    assert part < 0.9 * whole
    found.room = int((part + whole) / 2)
    best = found.fastest(2, 1, "bf16")
    assert best is not None and best.layout == replace(at, sequence=True)
    assert "shared" in str(LayoutPlan(chip("gaudi2"), (best,), (), 1))


@on_device(modes=LAZY)
def test_weights_that_are_spread_for_their_update_only_are_gathered_once_a_step() -> None:
    def gathered(zero: int, pp: int, micro_batches: int) -> int:
        found = collectives(Layout(1, pp, 2, zero, 1, micro_batches, "none", "bf16"), 2)
        return sum(count for (kind, _), count in found.items() if kind == "all_gather")

    assert gathered(1, 1, 4) == 3  # two layers and what is outside
    assert gathered(1, 2, 4) == gathered(1, 2, 6)
    assert gathered(3, 1, 4) == 4 * 2 * 3


def one_step(at: Layout) -> tuple[int, int, int]:
    """Of one card: multiplications and additions of products of attention, of others, and most bytes."""
    with pretended(0, 1, 8, Board(), 2) as made, suppress(Ended):
        language_step.program(config(), at, 256, 4, (1, 1))()
    units = []
    for launch in made.step(-1).events:
        known = launch.program.lowered()
        units += [u for u in work(chip("gaudi2"), known.program, frozenset(known.made.values())) if u.matrix]
    attention = sum(u.flops for u in units if u.attention)
    return attention, sum(u.flops for u in units) - attention, made.alive


@on_device(modes=LAZY)
def test_attention_is_the_fused_one_and_what_is_computed_again_is_counted() -> None:
    """Products by hand, all of attention recognized as causal."""
    none, some, every = (one_step(Layout(1, 1, 1, 0, 16, 1, again, "bf16")) for again in ("none", "some", "all"))
    tokens, layers = 16 * 256, 4
    scores = 2 * 8 * tokens * 256 * 64
    assert none[0] == layers * 7 * scores  # 2 forward, 1 again, 4 of gradients, a layer
    layer = 512 * (512 + 2 * 256 + 512) + 3 * 512 * 1024
    rest = 1000 * 512
    assert none[1] == some[1] == 3 * 2 * tokens * (layers * layer + rest)
    assert every[1] == none[1] + 2 * tokens * layers * (layer - 1024 * 512)  # nobody needs a layer's last product
    assert every[2] < some[2] < none[2]


@on_device(modes=LAZY)
def test_in_8_bits_products_are_as_many_and_cards_sum_as_often() -> None:
    """Linear layers have their operands so, attention and the words do not; each card measures once a step."""
    plain, narrow = (one_step(Layout(1, 1, 1, 0, 16, 1, "none", precision)) for precision in ("bf16", "fp8"))
    assert narrow[:2] == plain[:2]
    again = one_step(Layout(1, 1, 1, 0, 16, 1, "some", "fp8"))
    assert again[1] == plain[1] and again[2] < narrow[2]  # products are kept, as in bf16
    assert collectives(Layout(2, 2, 1, 0, 1, 2, "some", "fp8"), 2)  # computed again within a stage's backward pass
    one, two = (collectives(Layout(2, 1, 1, 0, 1, 3, "none", "fp8"), layers) for layers in (1, 2))
    more = two - one
    assert more["all_reduce", 2 * 256 * 512] == 3 * 4 and all(nbytes <= 2 * 256 * 512 for _, nbytes in two)
    assert collectives(Layout(1, 2, 2, 1, 1, 3, "none", "fp8"), 2)["send", 2 * 256 * 512] == 3  # stages measure apart
    found = habana_tf.plan(config(2), cards=1, length=256, global_batch=1, chip="gaudi2", precisions=["fp8"])
    assert {row.layout.precision for row in found} == {"fp8"}
    with pytest.raises(ValueError, match="no 8-bit floats"):
        habana_tf.plan(config(), cards=2, chip="gaudi", precisions=["fp8"])


@on_device(modes=LAZY)
def test_bytes_follow_from_what_is_spread() -> None:
    """Weights, gradients and AdamW's state by hand, in bytes for each weight; activations are few beside them."""
    wide = config(6, hidden_size=2048, intermediate_size=8192)
    found = layouts._Search(wide, layouts.Jobs("gaudi2", None, layouts.LATEST), 8, 16, 16)
    weights = found.layer * 6 + found.rest
    at = Layout(1, 1, 8, 1, 1, 2, "none", "bf16")

    def bytes_a_weight(at: Layout) -> float:
        recording = layouts.recorded(found.jobs, found.config, at, found.length, (6,), (2,))
        return recording.points(found.jobs)[0][2] / weights

    each = {zero: bytes_a_weight(replace(at, zero=zero)) for zero in (1, 2, 3)}
    state = 4 / 8
    assert 2 + 2 + state <= each[1] < 6  # weights and gradients whole
    assert 2 + 2 / 8 + state <= each[2] < each[1] - 1  # weights whole
    assert (2 + 2 + 4) / 8 <= each[3] < each[2] - 1  # of six layers, one or two are gathered at once
    narrow = bytes_a_weight(replace(at, zero=3, precision="fp8", recompute="all"))
    assert narrow < each[3] + 0.5  # 8 bits of a layer that is gathered, and not of all


@on_device(modes=LAZY)
def test_stages_hand_on_hidden_values_and_wait() -> None:
    row = search(2, 2)._row(Layout(1, 2, 1, 0, 1, 2, "none", "bf16"))
    assert row is not None and row.whole and 0 < row.exposed < row.seconds
    again = search(2, 2)._row(Layout(1, 2, 1, 0, 1, 2, "some", "mixed"))
    assert again is not None and again.seconds > row.seconds


@on_device(modes=LAZY)
def test_a_round_of_all_stages_is_what_more_micro_batches_add() -> None:
    """They take turns, so that one more may add nothing, or twice as much."""
    found, at = search(2, 12), Layout(1, 2, 1, 0, 1, 12, "none", "bf16")
    row = found._row(at)
    ((seconds, _, nbytes),) = layouts.recorded(found.jobs, found.config, at, found.length, (3,), (12,)).points(
        found.jobs
    )
    assert row is not None and abs(row.seconds / seconds - 1) < 0.01
    assert row.memory == pytest.approx(nbytes + chip("gaudi2").idle_memory_bytes, rel=0.01)


@on_device(modes=LAZY)
def test_the_fastest_that_fits_comes_first() -> None:
    found = habana_tf.plan(config(), cards=2, length=256, global_batch=2, chip="gaudi2")
    best = found.best()
    assert best is not None and best.whole and best.layout.cards == best.layout.global_batch == 2
    assert {(row.layout.tp, row.layout.pp, row.layout.precision) for row in found} == {
        (tp, 1, precision) for tp in (1, 2) for precision in ("bf16", "mixed")
    }
    assert [row.seconds for row in found.rows[1:]] == sorted(row.seconds for row in found.rows[1:])
    assert {row.layout.recompute for row in found} == {"none"}
    assert "tokens/s" in str(found) and found.to_dict()["rows"][0]["micro_batch"] == best.layout.micro_batch


@on_device(modes=LAZY)
def test_what_cannot_fit_is_not_recorded() -> None:
    large = config(126, hidden_size=16384, intermediate_size=53248, num_attention_heads=128, num_key_value_heads=8)
    found = habana_tf.plan(large, cards=8, chip="gaudi2")
    assert not found.rows and found.tried == 0 and "nothing fits" in str(found)
    assert "tp 8, pp 1, bf16: not even one sequence at once fits" in found.left_out


@on_device(modes=LAZY)
def test_what_is_asked_wrong() -> None:
    for given in ({"cards": 0}, {"cards": 4, "precisions": ["int4"]}, {"cards": 4, "length": 0}):
        with pytest.raises(ValueError, match="numbers from 1 on"):
            habana_tf.plan(config(), **given)
    with pytest.raises(ValueError, match="no target"):
        habana_tf.plan(config(), cards=4, target="8 hours")
    with pytest.raises(ValueError, match="how many cards"):
        habana_tf.plan(config())
