"""SSD: its loss falls, mAP is told from a checkpoint, two cards with common batch statistics train as one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment
from tests.examples.programs import EXAMPLES, all_on_hpu, losses, train
from tests.versions import KERAS_3

pytestmark = [
    pytest.mark.skipif(KERAS_3, reason="the examples are written for Keras 2, as their originals"),
    pytest.mark.rest,
]
SMALL = ("--depth", "10", "--width", "8", "--image_size", "64", "--levels", "2", "-v", "5", "--eval_samples", "16")


def test_learns_saves_and_evaluates(tmp_path: Path) -> None:
    line = ("ssd/ssd.py", *SMALL, "-b", "8", "--model_dir", str(tmp_path))
    printed = train(*line, "--use_fake_data", "--steps", "45", "--profiling")
    assert all_on_hpu(printed) and losses(printed)[45] < 0.6 * losses(printed)[1]
    traced = {path.relative_to(tmp_path).parts[1] for path in tmp_path.glob("profile/*/plugins/profile/*/*")}
    assert traced == {"step_20", "step_40"}
    assert re.search(r"^step 45, mAP: [\d.]+, mAP50: [\d.]+", train(*line, "--mode", "eval"), re.MULTILINE)


def test_two_cards_train_as_one() -> None:
    line = ("ssd/ssd.py", *SMALL, "--use_fake_data", "--steps", "5", "-d", "fp32")
    one = losses(train(*line, "-b", "8"))
    two = losses(train(*line, "-b", "4", "--distributed_bn", cards=2))
    assert one.keys() == two.keys() and all(abs(one[step] - two[step]) < 1e-2 * one[step] for step in one), (one, two)


def test_launcher() -> None:
    words = ["--hvd_workers", "2", *SMALL, "-b", "4", "--use_fake_data", "-s", "2", "--recipe_cache", ""]
    done = subprocess.run([sys.executable, str(EXAMPLES / "ssd" / "demo_ssd.py"), *words], env=environment(),
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0 and "2 card(s), 2 steps" in done.stdout, done.stderr[-4000:]


def test_evaluation_needs_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no checkpoint in"):
        train("ssd/ssd.py", *SMALL, "--mode", "eval", "--model_dir", str(tmp_path))
