"""Scripts that are run up to their first fit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.child import environment

SCRIPT = """
import sys
import numpy as np
import tensorflow as tf
print("arguments", sys.argv[1:])
model = tf.keras.Sequential([tf.keras.layers.Input((32,)), tf.keras.layers.Dense(8)])
model.compile("sgd", "mse")
try:
    model.fit(np.zeros((100, 32), "f4"), np.zeros((100, 8), "f4"), batch_size=20, epochs=2)
except Exception:
    print("caught")
open("trained", "w").close()
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["-m", "habana_tf.cli", "predict", *words], environment(), 500, folder, hpu=True)


def planned(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["-m", "habana_tf.cli", "plan", *words], environment(), 500, folder, hpu=True)


@pytest.mark.slow
def test_a_script_is_predicted_and_not_trained(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    fed = "--input-rate", "50", "--loaders", "2"
    done = run(tmp_path, "--chip", "gaudi", "--cards", "8", *fed, "--json", "train.py", "--fast")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["chip"], data["cards"], data["batch"]) == ("gaudi", 8, 20)
    assert data["input_bound"] and data["examples_per_second"] == 8 * 2 * 50
    assert "arguments ['--fast']" in done.stderr and "caught" not in done.stderr
    assert not (tmp_path / "trained").exists()


def test_a_script_that_never_trains_is_said_to(tmp_path: Path) -> None:
    """It finds the modules beside it, wherever it is called from."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("says = 'found'\n")
    (folder / "look.py").write_text("import beside\nprint(beside.says)\n")
    done = run(tmp_path, "scripts/look.py")
    assert done.returncode == 1 and "ended without calling fit" in done.stderr, done.stderr
    assert run(tmp_path, "nothing.py").returncode == 2
    done = run(tmp_path, "--loaders", "2", "scripts/look.py")
    assert done.returncode == 2 and "--loaders needs --input-rate" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "--chip", "gaudi2", "--box", "DL1"], "no box of gaudi2 cards is called 'DL1'"),
        (["predict", "--release", "new"], "give that of Habana's software"),
        (["plan", "--target", "1 examples/s", "--box", "HLS-1H"], "no box of gaudi2 cards is called 'HLS-1H'"),
    ],
)
def test_a_wrong_box_or_release_is_refused_before_the_script_runs(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from habana_tf.cli.main import main

    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('it ran')\n")
    assert main([*words, str(script)]) == 2
    assert said in capsys.readouterr().err
