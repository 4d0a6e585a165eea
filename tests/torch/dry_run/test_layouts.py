"""Ways to lay the training of a language model on cards: lines beside whole recordings, bytes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    from transformers import LlamaConfig

    import habana_tf
    from habana_tf.card.prediction.layouts import Layout
    from habana_tf.dry_run import layouts
    from habana_tf.hardware.chips import chip

LAZY = ("lazy",)


def config(layers: int = 6, **given: Any) -> Any:
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
             "vocab_size": 1000, **given}  # fmt: skip
    return LlamaConfig(num_hidden_layers=layers, **sizes)


def search(cards: int, batch: int = 16) -> Any:
    return layouts._Search(config(), chip("gaudi2"), None, layouts.LATEST, cards, 256, batch)


@on_device(modes=LAZY)
def test_lines_through_two_sizes_are_what_the_whole_takes() -> None:
    found = search(2)
    short = found._row(Layout(1, 1, 2, 3, 1, 4, True, "mixed"))
    whole = found.whole(short)
    assert short is not None and whole is not None and not short.whole and whole.whole
    assert abs(short.seconds / whole.seconds - 1) < 0.03
    idle = chip("gaudi2").idle_memory_bytes
    assert -0.02 < (short.memory - idle) / (whole.memory - idle) - 1 < 0.12  # too much rather than too little


@on_device(modes=LAZY)
def test_bytes_follow_from_what_is_spread() -> None:
    """Weights, gradients and AdamW's state by hand, in bytes for each weight; activations are few beside them."""
    wide = config(6, hidden_size=2048, intermediate_size=8192)
    found = layouts._Search(wide, chip("gaudi2"), None, layouts.LATEST, 8, 16, 16)
    weights = found.layer * 6 + found.rest
    at = Layout(1, 1, 8, 1, 1, 2, False, "bf16")
    each = {zero: found._point(replace(at, zero=zero), 6, 2)[2] / weights for zero in (1, 2, 3)}
    state = 4 / 8
    assert 2 + 2 + state <= each[1] < 6  # weights and gradients whole
    assert 2 + 2 / 8 + state <= each[2] < each[1] - 1  # weights whole
    assert (2 + 2 + 4) / 8 <= each[3] < each[2] - 1  # of six layers, one or two are gathered at once


@on_device(modes=LAZY)
def test_stages_hand_on_hidden_values_and_wait() -> None:
    row = search(2, 2)._row(Layout(1, 2, 1, 0, 1, 2, False, "bf16"))
    assert row is not None and row.whole and 0 < row.exposed < row.seconds


@on_device(modes=LAZY)
def test_the_fastest_that_fits_comes_first() -> None:
    found = habana_tf.plan(config(), cards=2, length=256, global_batch=2, chip="gaudi2")
    best = found.best()
    assert best is not None and best.whole and best.layout.cards == best.layout.global_batch == 2
    assert {(row.layout.tp, row.layout.pp, row.layout.precision) for row in found} == {
        (tp, 1, precision) for tp in (1, 2) for precision in ("bf16", "mixed")
    }
    assert [row.seconds for row in found.rows[1:]] == sorted(row.seconds for row in found.rows[1:])
    assert not any(row.layout.recompute for row in found)
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
