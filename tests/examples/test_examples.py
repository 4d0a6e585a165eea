"""Every other example, started as its README says."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Keras 3 has no engine.
KERAS_2 = importlib.util.find_spec("keras") is not None and (importlib.util.find_spec("keras.src.engine") is not None)
needs_keras_2 = pytest.mark.skipif(not KERAS_2, reason="the example is written for Keras 2, as its original")
needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod exists for TensorFlow 2.15 only"
)


def run(*command: str | Path, **variables: str) -> str:
    """What the command printed; the directory of this Python is the first that is searched."""
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(PATH=search, PYTHON=sys.executable, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def last_accuracy(printed: str) -> float:
    """In percent; Keras prints a part of 1."""
    found = re.findall(r"accuracy: ([\d.]+)", printed)
    assert found, printed[-2000:]
    value = float(found[-1])
    return value if "." in found[-1] and value > 1 else value * 100


@needs_keras_2
@pytest.mark.parametrize("name,least", [("example.py", 60), ("example_tf_func.py", 85), ("example_tf_session.py", 80)])
def test_one_card(name: str, least: float) -> None:
    assert last_accuracy(run(sys.executable, EXAMPLES / "hello_world" / name)) > least


@needs_keras_2
@needs_horovod
@pytest.mark.parametrize("name,least", [("example_hvd.py", 40), ("example_tf_func_hvd.py", 85)])
def test_horovod_with_the_launcher(name: str, least: float) -> None:
    command = [sys.executable, "-m", "habana_tf.cli", "run", "-n", "2", "--strategy", "horovod"]
    loads = ["--load"] if name == "example_hvd.py" else []
    assert last_accuracy(run(*command, *loads, EXAMPLES / "hello_world" / name)) > least


@needs_keras_2
@needs_horovod
def test_horovod_with_mpirun() -> None:
    assert last_accuracy(run(EXAMPLES / "hello_world" / "run_hvd.sh", "2")) > 40


@needs_keras_2
def test_strategy_with_spawned_workers() -> None:
    program = EXAMPLES / "distribute_with_hpu_strategy" / "mnist_keras_multiproc.py"
    printed = run(sys.executable, program, "-n", "2", "-e", "3")
    ends = re.findall(r"2 worker\(s\), test loss ([\d.]+), test accuracy ([\d.]+)", printed)
    assert len(ends) == 2 and ends[0] == ends[1] and float(ends[0][1]) > 75


@needs_keras_2
@needs_horovod
def test_strategy_with_mpirun() -> None:
    printed = run(EXAMPLES / "distribute_with_hpu_strategy" / "run_mnist_keras.sh", "-e", "3")
    ends = re.findall(r"2 worker\(s\), test loss ([\d.]+), test accuracy ([\d.]+)", printed)
    assert len(ends) == 2 and ends[0] == ends[1] and float(ends[0][1]) > 75


@needs_keras_2
@needs_horovod
def test_two_jobs_side_by_side(tmp_path: Path) -> None:
    assert shutil.which("habana-tf", path=str(Path(sys.executable).parent)), "the package is installed"
    logs = tmp_path / "first.log", tmp_path / "second.log"
    run(EXAMPLES / "multi_tenants" / "run_two_jobs.sh", *logs)
    for log in logs:
        assert last_accuracy(log.read_text()) > 40


def test_readme_names_every_program() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    programs = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")} - {"hello_world/digits.py"}
    assert len(programs) > 7 and all(f"`{name}`" in readme for name in programs)
