"""ResNet: learns with LARS, from TFRecord files, on two cards."""

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
PROGRAM = "resnet/resnet_ctl_main.py"
SMALL = ("--width", "8", "--warmup_steps", "5", "-bs", "32", "--log_every", "10")


def test_learns_digits_from_records(tmp_path: Path) -> None:
    printed = train(PROGRAM, *SMALL, "--train_steps", "120", "--data_dir", str(tmp_path))
    assert all_on_hpu(printed) and f"1500 images from {tmp_path}" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train-00000-of-00002", "train-00001-of-00002"]
    assert float(re.findall(r"test accuracy: ([\d.]+)", printed)[-1]) > 75


@pytest.mark.parametrize("optimizer", [["--optimizer", "LARS"], ["--optimizer", "SGD", "--base_learning_rate", "0.05"]])
def test_learns_one_synthetic_batch(optimizer: list[str]) -> None:
    printed = train(PROGRAM, *SMALL, *optimizer, "--use_synthetic_data", "--train_steps", "60")
    assert all_on_hpu(printed) and losses(printed)[60] < losses(printed)[1] - 0.5


def test_two_cards_with_common_statistics_train_as_one() -> None:
    """The losses differ by rounding only. In six steps of a long warm-up: at the full rate rounding becomes much more,
    and after four steps stock TensorFlow is as far from HPU on one card as that is from two cards."""
    line = (PROGRAM, "--width", "8", "-bs", "32", "--warmup_steps", "30", "--train_steps", "6", "--log_every", "1",
            "-d", "fp32", "--distributed_bn")  # fmt: skip
    one, two = losses(train(*line)), losses(train(*line, cards=2))
    assert one.keys() == two.keys() and len(one) == 6
    assert all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)


def test_two_cards(tmp_path: Path) -> None:
    printed = train(PROGRAM, *SMALL, "--train_steps", "80", "--data_dir", str(tmp_path), cards=2)
    assert printed.count("1500 images") == 1 and "2 card(s), LARS" in printed
    assert losses(printed)[80] < losses(printed)[1] - 0.5
