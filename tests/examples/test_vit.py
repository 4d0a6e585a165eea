"""The vision transformer: its loss falls, two cards train as one does, a checkpoint is gone on from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.programs import all_on_hpu, losses, train
from tests.versions import examples_run

pytestmark = examples_run
SHORT = ("--train_batch_size", "32", "--warmup_steps", "5", "--log_every", "5")


@pytest.mark.rest
def test_learns() -> None:
    """In two micro-batches a step."""
    printed = train("vit/train.py", *SHORT, "--gradient_accumulation_steps", "2", "--num_steps", "30")
    assert all_on_hpu(printed) and re.search(r"\d+ images/s on 1 card", printed)
    assert losses(printed)[30] < losses(printed)[1] - 0.2


@pytest.mark.rest
def test_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """The rate would fall otherwise in a shorter run: it only rises here."""
    line = ("vit/train.py", *SHORT, "--warmup_steps", "40", "-d", "fp32")
    whole = losses(train(*line, "--num_steps", "20"))
    train(*line, "--num_steps", "10", "--model_dir", str(tmp_path))
    second = train(*line, "--num_steps", "20", "--model_dir", str(tmp_path))
    assert "Goes on from ckpt-10, step 10" in second and list(losses(second)) == [11, 15, 20]
    assert all(abs(losses(second)[step] - whole[step]) < 2e-3 for step in (15, 20)), whole


@pytest.mark.rest
def test_two_cards_train_as_one() -> None:
    """With the same batch over all cards: only rounding differs. Accumulation does not change the numbers either."""
    line = ("vit/train.py", *SHORT, "--num_steps", "15", "-d", "fp32")
    one, two = losses(train(*line)), losses(train(*line, "--gradient_accumulation_steps", "2", cards=2))
    assert one.keys() == two.keys() and len(one) == 4
    assert all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)


@pytest.mark.rest
def test_reads_digits() -> None:
    printed = train("vit/train.py")
    assert float(re.findall(r"test accuracy: ([\d.]+)", printed)[-1]) >= 97
