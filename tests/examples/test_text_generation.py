"""Text generation: what is learnt can be gone on with, and the cache of keys and values changes the speed only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.programs import all_on_hpu, losses, train
from tests.versions import examples_run

pytestmark = examples_run
LINE = ("text_generation/generate.py", "--depth", "1", "--width", "32", "--heads", "2", "--length", "48",
        "--log_every", "40", "--learning_rate", "0.01", "-d", "fp32")  # fmt: skip
PROMPT = "The miller took "


def written(printed: str) -> str:
    """What stands after the prompt."""
    (text,) = re.findall(f"^{PROMPT}(.*)\nOps of graphs", printed, re.MULTILINE | re.DOTALL)
    return str(text)


def test_learns_and_writes() -> None:
    printed = train(*LINE, "--num_steps", "80", "--prompt", PROMPT)
    assert all_on_hpu(printed), "the loop over the letters too"
    assert losses(printed)[80] < 0.7 * losses(printed)[1]
    assert len(PROMPT + written(printed)) == 48


@pytest.mark.rest
def test_two_cards_train_as_one() -> None:
    """With the same batch over all cards: only rounding differs."""
    line = (*LINE, "--num_steps", "15", "--log_every", "5")
    one, two = losses(train(*line)), losses(train(*line, cards=2))
    assert one.keys() == two.keys() and len(one) == 4
    assert all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)


@pytest.mark.rest
def test_the_same_text_without_the_cache(tmp_path: Path) -> None:
    first = train(*LINE, "--num_steps", "150", "--prompt", PROMPT, "--model_dir", str(tmp_path))
    second = train(*LINE, "--num_steps", "150", "--prompt", PROMPT, "--model_dir", str(tmp_path), "--no_cache")
    assert "Goes on from ckpt-150" in second and not losses(second)
    assert written(second) == written(first) and len(set(written(first))) > 3
