"""Recipes of PyTorch's programs in the recipe cache: names, ops and scopes, beside TensorFlow's in one directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.child import PATH, python
from tests.torch.child import needs_tensorflow, needs_torch, tensorflow

_TRAINS = """
    import sys
    import torch
    import habana_frameworks.torch.core as htcore

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU())
            self.head = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.body(x))

    torch.manual_seed(0)
    model = Net().to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        made = model(torch.ones(4, 6, device="hpu"))
        torch.nn.functional.cross_entropy(made, torch.tensor([0, 1, 2, 0]).to("hpu")).backward()
        htcore.mark_step()
        updates.step()
        updates.zero_grad()
        htcore.mark_step()
"""
_COMPILED = """
    from habana_tf.hardware import telemetry
    print("recipes", telemetry.holder(telemetry.held_here()).telemetry.recipes)
"""
"""Prints how many recipes the process has compiled."""
_TENSORFLOW = """
    import tensorflow as tf
    from habana_tf import load_habana_module
    load_habana_module()

    @tf.function
    def f(x):
        return tf.reduce_sum(tf.nn.relu(x @ x), 0)

    f(tf.ones([5, 5]))
"""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which a training of PyTorch has left its recipes."""
    root = tmp_path_factory.mktemp("torch") / "recipes"
    python(_TRAINS, TF_RECIPE_CACHE_PATH=str(root), PT_HPU_LAZY_MODE="1")
    return root


def _command(root: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": PATH}
    code = "import sys; from habana_tf.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "recipes", *arguments, "--path", str(root)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _listed(root: Path) -> list[dict[str, Any]]:
    return [row["header"] for row in json.loads(_command(root, "list", "--json"))["recipes"]]


def _step(root: Path) -> str:
    """The key of the program of forward and backward."""
    (found,) = (row["digest"] for row in _listed(root) if "nll_loss_backward" in row["ops"])
    return str(found)


@needs_torch
def test_a_recipe_says_whose_it_is_its_overloads_and_its_modules(recipes: Path) -> None:
    rows = _listed(recipes)
    assert all(row["framework"] == "PyTorch" and row["name"].startswith("torch_") for row in rows)
    forward = next(row for row in rows if row["digest"] == _step(recipes))
    assert forward["ops"]["addmm"] == 2 and forward["scopes"] == {"Net": 9}
    assert any("SGD" in row["scopes"] for row in rows)
    text = _command(recipes, "show", _step(recipes), "--ops")
    for wanted in ("PyTorch", "backward/Net/head/mm_", "Net/body.0/addmm_", "Net/body.1/relu_", "gaudi2"):
        assert wanted in text, text


@needs_torch
def test_every_command_reads_them(recipes: Path, tmp_path: Path) -> None:
    key = _step(recipes)
    assert "addmm" in _command(recipes, "ir", key, "--stage", "cluster")
    assert "contract" in _command(recipes, "ir", key, "--stage", "primitives")
    assert "define void @k0" in _command(recipes, "ir", key)
    assert "k0:" in _command(recipes, "asm", key)
    assert "intact" in _command(recipes, "verify")
    assert f"{key[:12]}" in _command(recipes, "explain")
    assert "part of the key" in _command(recipes, "explain", key)
    _command(recipes, "report", "--html", str(tmp_path / "page.html"))
    assert "Net/head" in (tmp_path / "page.html").read_text()
    _command(recipes, "export", str(tmp_path / "bundle"))
    other = tmp_path / "other"
    _command(other, "import", str(tmp_path / "bundle"))
    assert {row["digest"] for row in _listed(other)} == {row["digest"] for row in _listed(recipes)}


@needs_torch
def test_looking_at_them_takes_neither_framework(recipes: Path) -> None:
    code = (
        "import sys; from habana_tf.cli.main import main; "
        f"code = main(['recipes', 'show', {_step(recipes)!r}, '--path', {str(recipes)!r}]); "
        "assert not {'torch', 'tensorflow'} & {*sys.modules}, 'imported'; sys.exit(code)"
    )
    env = {**os.environ, "PYTHONPATH": PATH}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_torch
def test_a_second_process_compiles_nothing_though_its_modules_have_other_names(recipes: Path) -> None:
    before = {row["digest"] for row in _listed(recipes)}
    renamed = _TRAINS.replace("Net", "Other").replace("head", "last")
    done = python(renamed + _COMPILED, imported=True, TF_RECIPE_CACHE_PATH=str(recipes), PT_HPU_LAZY_MODE="1")
    assert done.stdout.split()[-2:] == ["recipes", "0"]
    assert {row["digest"] for row in _listed.__wrapped__(recipes)} == before


@needs_torch
@pytest.mark.rest
def test_a_second_process_compiles_nothing_of_a_compiled_model(tmp_path: Path) -> None:
    graph = _TRAINS.replace('Net().to("hpu")', 'torch.compile(Net().to("hpu"), backend="hpu_backend")')
    counts = []
    settings = {"TF_RECIPE_CACHE_PATH": str(tmp_path / "recipes"), "PT_HPU_LAZY_MODE": "0"}
    for _ in range(2):
        done = python(graph + _COMPILED, imported=True, **settings)
        counts.append(int(done.stdout.split()[-1]))
    assert counts[0] > 0 and counts[1] == 0


@needs_torch
@needs_tensorflow
def test_recipes_of_two_frameworks_are_told_apart(recipes: Path) -> None:
    tensorflow(_TENSORFLOW, TF_RECIPE_CACHE_PATH=str(recipes))
    lines = _command(recipes, "list").splitlines()
    at = lines[0].split().index("of")
    found = {line.split()[0]: line.split()[at] for line in lines[2:] if line.startswith(("torch_", "cluster_"))}
    assert {name.split("_")[0]: of for name, of in found.items()} == {"torch": "PyTorch", "cluster": "TensorFlow"}


_STEP = """
    import torch
    import habana_frameworks.torch.core as htcore
    from habana_tf.cache import stats

    x = torch.ones(4, 8).to("hpu")
    print("sum", (x * 3 + 1).tanh().sum().item(), "compiled", stats().counts().compiled)
"""


@needs_torch
def test_habanas_configuration_of_the_cache_names_its_folder_and_clears_it(tmp_path: Path) -> None:
    """PT_HPU_RECIPE_CACHE_CONFIG=path,delete,megabytes; rank 0 deletes, and no process that it starts."""
    kept, cleared = f"{tmp_path},false,64", f"{tmp_path},True,64,false"

    def compiled(config: str, **others: str) -> int:
        done = python(_STEP, imported=True, PT_HPU_LAZY_MODE="1", PT_HPU_RECIPE_CACHE_CONFIG=config, **others)
        return int(done.stdout.split()[-1])

    first = compiled(kept)
    assert first > 0 and compiled(kept) == 0
    assert compiled(cleared) == first and compiled(cleared, PT_CACHE_FOLDER_DELETE="0") == 0
    rank_1 = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    launched = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x"}
    assert compiled(cleared, **rank_1, **launched) == 0
    assert "64" in python("from habana_tf import settings; print(settings.TF_RECIPE_CACHE_SIZE_MB.get())",
                          PT_HPU_RECIPE_CACHE_CONFIG=kept).stdout  # fmt: skip


@needs_torch
def test_variables_that_nothing_reads_are_said() -> None:
    done = python(_STEP, imported=True, PT_HPU_LAZY_MOD="1", PT_HPU_GPU_MIGRATION="1", HABANA_SIM_LOG="info")
    assert "did you mean PT_HPU_LAZY_MODE?" in done.stderr and "PT_HPU_GPU_MIGRATION: no effect here" in done.stderr
    wrong = python(_STEP, imported=True, check=False, HABANA_SIM_CHIPP="gaudi3")
    assert wrong.returncode and "did you mean HABANA_SIM_CHIP?" in wrong.stderr
