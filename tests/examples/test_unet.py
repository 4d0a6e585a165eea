"""The U-Net: its Dice score rises, and a checkpoint can be evaluated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.programs import all_on_hpu, losses, train
from tests.versions import examples_run

pytestmark = [
    examples_run,
    pytest.mark.rest,
]
LINE = ("unet/unet2d.py", "--image_size", "32", "--filters", "8", "--levels", "2", "--learning_rate", "0.005")


def score(printed: str) -> float:
    return float(re.findall(r"Dice score: ([\d.]+)", printed)[-1])


def test_learns_shapes(tmp_path: Path) -> None:
    line = (*LINE, "--model_dir", str(tmp_path))
    first = train(*line, "--max_steps", "5")
    printed = train(*line, "--max_steps", "150", "--augment")
    assert all_on_hpu(printed) and "Goes on from ckpt-5" in printed
    assert score(printed) > score(first) + 0.2 and losses(printed)[150] < 0.7 * losses(first)[1]
    assert score(train(*line, "--exec_mode", "evaluate")) == score(printed)


def test_two_cards_train_as_one() -> None:
    line = (*LINE, "--max_steps", "10", "--log_every", "5", "-d", "fp32")
    one, two = losses(train(*line)), losses(train(*line, cards=2))
    assert one.keys() == two.keys() and all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)
