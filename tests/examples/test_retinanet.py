"""RetinaNet by the Model Garden's own program: HPU trains as stock TensorFlow does, and two cards as one.

All runs begin with one checkpoint's weights, as the Garden seeds none, and with plain steps of one length, so that it
does not matter who counts them from where. Every card's batch holds the same four pictures, the same in both files, so
that it does not matter which card reads which file: two cards with four each then train as one card with four. (With
eight it would not be the same: the Garden divides by the objects of a card plus one, not by those of the batch.)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment
from tests.examples.programs import EXAMPLES
from tests.versions import GARDEN, needs_garden

pytestmark = [needs_garden, pytest.mark.rest]

PROGRAM = str(EXAMPLES / "retinanet" / "train.py")
STEPS = 12
SMALL = """model: {input_size: [64, 64, 3], max_level: 3, decoder: {type: fpn, fpn: {num_filters: 8}},
  backbone: {type: resnet, resnet: {model_id: 10, depth_multiplier: 0.125}}, head: {num_convs: 1, num_filters: 8}}"""
TRAINER = f"""train_steps: {STEPS}, validation_steps: 1, validation_interval: {STEPS}, checkpoint_interval: 3,
  steps_per_loop: 3, summary_interval: 3, optimizer_config: {{warmup: {{type: null}},
  optimizer: {{sgd: {{momentum: 0.0}}}}, learning_rate: {{type: constant, constant: {{learning_rate: 0.02}}}}}}"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight pictures to train on, four of them in both files."""
    made = tmp_path_factory.mktemp("shapes")
    words = [str(EXAMPLES / "retinanet" / "make_data.py"), str(made), "--size", "64", "--train", "8", "--eval", "8"]
    subprocess.run([sys.executable, *words], env=environment(), check=True, timeout=300)
    first, second = sorted(made.glob("train-*"))
    shutil.copy(first, second)
    return made


def garden(
    data: Path, model: Path, *start: str, strategy: str = "hpu", cards: int = 1, weights: str = "null",
    mode: str = "train",
) -> str:  # fmt: skip
    """What a run of the Garden printed. start: the command before its arguments. weights: a checkpoint."""
    sides = f"parser: {{aug_rand_hflip: false}}, global_batch_size: {4 * cards}, shuffle_buffer_size: 1"
    override = f"""{{runtime: {{distribution_strategy: '{strategy}'}}, trainer: {{ {TRAINER} }}, task: {{ {SMALL},
      init_checkpoint: {weights}, init_checkpoint_modules: all,
      train_data: {{input_path: '{data}/train*', {sides}}}, annotation_file: {data}/instances_eval.json,
      validation_data: {{input_path: '{data}/eval*', global_batch_size: 8}} }} }}"""
    env = environment(HABANA_SIM_CARDS="2")
    env["PYTHONPATH"] = f"{GARDEN}{os.pathsep}{env['PYTHONPATH']}"
    words = ["--experiment=retinanet_resnetfpn_coco", f"--mode={mode}", f"--model_dir={model}",
             f"--config_file={EXAMPLES / 'retinanet' / 'shapes.yaml'}", f"--params_override={override}"]  # fmt: skip
    done = subprocess.run([*start, *words], env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return re.sub(r"^\[0\] ", "", done.stdout, flags=re.MULTILINE)


def losses(printed: str) -> dict[str, float]:
    """What was told -> total loss: "train 6", "eval 12"."""
    told = re.findall(r"^ ?(train|eval) \| step: +(\d+) \| steps/sec[^}]*'total_loss': ([\d.]+)", printed, re.MULTILINE)
    return {f"{kind} {step}": float(loss) for kind, step, loss in told}


@pytest.fixture(scope="module")
def stock(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, float], str]:
    """Losses of stock TensorFlow, and its checkpoint of step 3, with which the others begin."""
    model = tmp_path_factory.mktemp("stock")
    printed = garden(data, model, sys.executable, "-m", "official.vision.train", strategy="off")
    return losses(printed), str(model / "ckpt-3")


def test_as_stock_tensorflow(data: Path, stock: tuple[dict[str, float], str], tmp_path: Path) -> None:
    """Losses to 1e-3 of them: float32 on both, over nine steps of training."""
    wanted, checkpoint = stock
    printed = garden(data, tmp_path, sys.executable, PROGRAM, weights=checkpoint, mode="train_and_eval")
    told = losses(printed)
    assert told.keys() == wanted.keys() | {f"eval {STEPS}"} and len(wanted) == 4, (told, wanted)
    later = {f"train {step}": wanted[f"train {step + 3}"] for step in range(3, STEPS, 3)}
    assert {name: told[name] for name in later} == pytest.approx(later, rel=1e-3)
    assert told[f"train {STEPS}"] < 0.8 * wanted["train 3"] and (tmp_path / f"ckpt-{STEPS}.index").exists()
    assert "Average Precision  (AP) @[ IoU=0.50:0.95" in printed
    (line,) = re.findall(r"^Ops of graphs on the CPU: (.*)$", printed, re.MULTILINE)
    kinds = set(re.findall(r"\d+ (\w+) \(", line))
    assert kinds <= {"IteratorGetNext", "Identity", "Enter", "Exit", "Merge", "Switch", "NextIteration"}, line


def test_two_cards_as_one(data: Path, stock: tuple[dict[str, float], str], tmp_path: Path) -> None:
    """Losses to 1e-3 of stock TensorFlow's with one card's pictures."""
    wanted, checkpoint = stock
    line = (str(Path(sys.executable).parent / "habana-tf"), "run", "-n", "2", PROGRAM)
    told = losses(garden(data, tmp_path, *line, cards=2, weights=checkpoint))
    later = {f"train {step}": wanted[f"train {step + 3}"] for step in range(3, STEPS, 3)}
    assert {name: told[name] for name in later} == pytest.approx(later, rel=1e-3)
