"""Every other example, started by its line in examples/README.md or by its script."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment
from tests.versions import KERAS_3, needs_horovod

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
needs_keras_2 = pytest.mark.skipif(KERAS_3, reason="the example is written for Keras 2, as its original")
# What the README asks root to add, and on machines with fewer cores than ranks; others need the cores too.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1"}  # fmt: skip


def sh(line: str, folder: Path, **variables: str) -> str:
    """What the line printed, in a folder with `examples` in it; this Python's programs are the first that are found."""
    (folder / "examples").symlink_to(EXAMPLES)
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env={**environment(PATH=f"{tools}{os.pathsep}{os.environ['PATH']}", PYTHON=sys.executable), **MPI, **variables},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def readme_lines() -> dict[str, str]:
    """Program to shell line."""
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    return dict(rows)


def last_accuracy(printed: str) -> float:
    """In percent; Keras prints a part of 1."""
    found = re.findall(r"accuracy: ([\d.]+)", printed)
    assert found, printed[-2000:]
    value = float(found[-1])
    return value if "." in found[-1] and value > 1 else value * 100


@needs_keras_2
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("example.py", 60),
        pytest.param("example_tf_session.py", 80, marks=pytest.mark.rest),
        pytest.param("example_tf_func.py", 85, marks=pytest.mark.rest),
        pytest.param("example_hvd.py", 40, marks=[needs_horovod, pytest.mark.rest]),
        pytest.param("example_tf_func_hvd.py", 85, marks=[needs_horovod, pytest.mark.rest]),
    ],
)  # fmt: skip
def test_hello_world(name: str, least: float, tmp_path: Path) -> None:
    printed = sh(readme_lines()[f"hello_world/{name}"], tmp_path)
    assert last_accuracy(printed) > least
    if name == "example_tf_session.py":
        assert printed.count("\nStep ") + printed.startswith("Step ") == 100  # tested after each


@pytest.mark.rest
@needs_keras_2
@needs_horovod
def test_horovod_on_all_cards(tmp_path: Path) -> None:
    """The script asks hl-smi how many cards there are."""
    assert shutil.which("hl-smi", path=str(Path(sys.executable).parent)), "the package is installed"
    printed = sh("examples/hello_world/run_hvd.sh", tmp_path, HABANA_SIM_CARDS="2")
    assert last_accuracy(printed) > 40 and ":6/6 - " in printed  # batches, half as many as one card has


@needs_keras_2
@pytest.mark.rest
@pytest.mark.parametrize(
    "line",
    [
        "{distribute_with_hpu_strategy/mnist_keras.py} -e 3",
        "{distribute_with_hpu_strategy/mnist_keras_multiproc.py} -e 3",
        pytest.param("examples/distribute_with_hpu_strategy/run_mnist_keras.sh -e 3", marks=needs_horovod),  # mpirun
    ],
)
def test_strategy(line: str, tmp_path: Path) -> None:
    program = line.partition("}")[0].removeprefix("{")
    printed = sh(line.replace(f"{{{program}}}", readme_lines().get(program, "")), tmp_path)
    ends = re.findall(r"2 worker\(s\), test loss ([\d.]+), test accuracy ([\d.]+)", printed)
    assert len(ends) == 2 and ends[0] == ends[1] and float(ends[0][1]) > 75


@pytest.mark.rest
@needs_keras_2
@needs_horovod
def test_two_jobs_side_by_side(tmp_path: Path) -> None:
    assert shutil.which("habana-tf", path=str(Path(sys.executable).parent)), "the package is installed"
    logs = tmp_path / "first.log", tmp_path / "second.log"
    sh(f"{readme_lines()['multi_tenants/run_two_jobs.sh']} {logs[0]} {logs[1]}", tmp_path)
    for log in logs:
        assert last_accuracy(log.read_text()) > 40


def test_two_jobs_of_which_the_first_fails(tmp_path: Path) -> None:
    """The second goes on to its end, and the script fails; the logs are where the caller says."""
    tools, script = tmp_path / "tools", EXAMPLES / "multi_tenants" / "run_two_jobs.sh"
    tools.mkdir()
    (tools / "habana-tf").write_text("#!/bin/sh\n[ $HABANA_VISIBLE_MODULES = 0,1 ] && exit 3\nsleep 1; echo trained\n")
    (tools / "habana-tf").chmod(0o755)
    variables = environment(PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run([script, "first.log", "second.log"], cwd=tmp_path, env=variables, timeout=300)
    assert done.returncode == 3
    assert (tmp_path / "first.log").read_text() == "" and (tmp_path / "second.log").read_text() == "trained\n"


def test_readme_has_a_line_for_every_program() -> None:
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    programs = {name for name in files if "__main__" in (EXAMPLES / name).read_text() or "hello_world" in name}
    programs -= {"hello_world/digits.py"}
    lines = readme_lines()
    assert len(programs) > 7 and programs <= lines.keys()
    assert all(Path(name).name in line for name, line in lines.items())
