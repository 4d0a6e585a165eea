"""SSD: its loss falls, mAP is told from a checkpoint, two cards with common batch statistics train as one.

Two cards meet by HPUStrategy or by Horovod; pictures are generated, or in files as COCO's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment
from tests.examples.programs import EXAMPLES, all_on_hpu, losses, train
from tests.versions import examples_run, needs_horovod

pytestmark = [
    examples_run,
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


@pytest.mark.parametrize("by", ["hpu", pytest.param("horovod", marks=needs_horovod)])
def test_two_cards_train_as_one(by: str) -> None:
    line = ("ssd/ssd.py", *SMALL, "--use_fake_data", "--steps", "5", "-d", "fp32")
    one = losses(train(*line, "-b", "8"))
    options = ["--use_horovod"] if by == "horovod" else []
    two = losses(train(*line, "-b", "4", "--distributed_bn", *options, cards=2, by=by))
    assert one.keys() == two.keys() and all(abs(one[step] - two[step]) < 1e-2 * one[step] for step in one), (one, two)


def test_horovods_ranks_need_its_launcher() -> None:
    """Two ranks of a TF_CONFIG would each be rank 0 of 1 to Horovod."""
    with pytest.raises(AssertionError, match="--use_horovod: TF_CONFIG is set"):
        train("ssd/ssd.py", *SMALL, "--use_horovod", TF_CONFIG='{"cluster": {"worker": ["a:1", "b:1"]}}')


def test_files_as_cocos(tmp_path: Path) -> None:
    """Training on them; weights of the backbone from that checkpoint; what it finds in a picture, in a file."""
    data, model = tmp_path / "data", tmp_path / "model"
    train("ssd/make_data.py", str(data), "--train", "16", "--val", "4", "--size", "80", cache=None)
    line = ("ssd/ssd.py", *SMALL, "-b", "4", "--data_dir", str(data))
    printed = train(*line, "-e", "3", "--model_dir", str(model), "--vis_dataloader")
    assert all_on_hpu(printed) and "12 steps, 4 an epoch" in printed and losses(printed)[10] < losses(printed)[1]
    assert len(list(model.glob("dataloader_*.png"))) == 4

    again = train(*line, "-s", "1", "--resnet_checkpoint", str(model))
    assert "45 variables from" in again and losses(again)[1] < 0.9 * losses(printed)[1]
    with pytest.raises(AssertionError, match="is no backbone of this depth and width"):
        train(*line, "-s", "1", "--resnet_checkpoint", str(model), "--width", "16")

    pictures = sorted(str(path) for path in data.glob("val/*.png"))[:2]
    assert re.search(r"^\d+ detections in 2 images", train(
        *line, "--model_dir", str(model), "--inference", *pictures), re.MULTILINE)  # fmt: skip
    found = json.loads((model / "inference" / "detections.json").read_text())
    assert found and len(list(model.glob("inference/*.png"))) == 2
    for each in found:
        left, top, width, height = each["bbox"]
        assert each["category"] in {"disc", "square", "triangle"} and 0.05 < each["score"] <= 1
        assert min(each["bbox"]) >= 0 and left + width <= 80.01 and top + height <= 80.01


@needs_horovod
def test_launcher() -> None:
    words = ["--hvd_workers", "2", *SMALL, "-b", "4", "--use_fake_data", "-s", "2", "--recipe_cache", ""]
    done = subprocess.run([sys.executable, str(EXAMPLES / "ssd" / "demo_ssd.py"), *words], env=environment(),
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0 and "2 card(s), 2 steps" in done.stdout, done.stderr[-4000:]


def test_evaluation_needs_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no checkpoint in"):
        train("ssd/ssd.py", *SMALL, "--mode", "eval", "--model_dir", str(tmp_path))
