"""The programs of examples/torch/ run as they stand, and learn."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.child import environment
from tests.torch.child import needs_torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch"


def needs(library: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


pytestmark = [needs_torch, needs("sklearn")]


def _run(program: str, *arguments: str, launcher: tuple[str, ...] = ()) -> str:
    """What a program printed."""
    env = environment(HABANA_SIM_CARDS="2", HF_HUB_OFFLINE="1")
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    line = [*launcher, str(EXAMPLES / program), *arguments]
    if launcher:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=400)
    else:
        done = forked.run(line, env, timeout=400, hpu=True, framework="torch")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def _percent(printed: str, name: str) -> float:
    found = re.findall(rf"{name} ([\d.]+)%", printed)
    assert len(found) == 1, printed
    return float(found[0])


@pytest.mark.parametrize(
    "arguments", [["--lazy"], *(pytest.param(a, marks=pytest.mark.rest) for a in ([], ["--compile"]))]
)
def test_mnist(arguments: list[str]) -> None:
    assert _percent(_run("mnist.py", *arguments, "--epochs", "5"), "test accuracy:") > 95


@pytest.mark.parametrize("arguments", [["--autocast"], pytest.param(["--hmp", "--lazy"], marks=pytest.mark.rest)])
def test_resnet(arguments: list[str]) -> None:
    assert _percent(_run("resnet.py", *arguments, "--epochs", "2"), "top-1") > 80


@pytest.mark.rest
def test_resnet_learns() -> None:
    assert _percent(_run("resnet.py", "--lazy"), "top-1") > 95


@pytest.mark.rest  # networks/test_networks.py has two cards, distributed/test_launched.py by torchrun
def test_resnet_on_two_cards() -> None:
    tool = str(Path(sys.executable).parent / "torchrun")
    printed = _run("resnet.py", "--lazy", "--epochs", "2", launcher=(tool, "--nproc_per_node", "2"))
    assert "on 2 card(s)" in printed and _percent(printed, "top-1") > 60


def test_resnet_says_how_fast_it_is_on_images_of_another_size() -> None:
    assert "images/s on 1 card(s)" in _run("resnet.py", "--lazy", "--made_up", "24", "--epochs", "1")


@pytest.mark.parametrize(("steps", "least"), [(60, 40), pytest.param(200, 90, marks=pytest.mark.rest)])
def test_vit(steps: int, least: int) -> None:
    printed = _run("vit.py", "--num_steps", str(steps))
    assert _percent(printed, "test accuracy:") > least
    assert len(re.findall(r"\d images/s", printed)) == steps // 50


def test_hpu_graphs() -> None:
    printed = _run("hpu_graphs.py")
    assert _percent(printed, "test accuracy:") > 95
    assert re.search(r"ms recorded, .* ms replayed", printed)


@needs("transformers")
@needs("accelerate")
def test_hugging_face() -> None:
    printed = _run("hugging_face.py")
    assert "weights on hpu:0" in printed
    assert _percent(printed, "test accuracy:") > 95


@needs("lightning")
@pytest.mark.parametrize("devices", ["1", "2"])
def test_lightning(devices: str) -> None:
    printed = _run(
        "with_lightning.py", "--devices", devices, "--precision", "bf16-mixed" if devices == "2" else "32-true"
    )
    assert f"on {devices} card(s), hpu" in printed
    assert _percent(printed, "test accuracy:") > 95
