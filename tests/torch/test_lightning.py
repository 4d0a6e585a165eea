"""Lightning's `Trainer` and `Fabric` on the device, by their own names for it and by Habana's of before."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.child import python
from tests.torch.child import needs_torch

pytestmark = needs_torch
HAS_LIGHTNING = importlib.util.find_spec("lightning") is not None
needs_lightning = pytest.mark.skipif(not HAS_LIGHTNING, reason="Lightning is not installed: pip install lightning")

TRAINED = """
import torch
import {package} as pl

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def training_step(self, batch, number):
        made = self.layer(batch[0])
        print("step", made.device, made.dtype)
        return made.square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=4)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
torch.manual_seed(0)
"""


@needs_lightning
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_fabric_trains_as_on_the_cpu(precision: str) -> None:
    program = f"""
        import copy, torch
        import habana_tf.torch.lightning
        from lightning.fabric import Fabric

        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        weights = []
        for accelerator in "cpu", "hpu":
            there = copy.deepcopy(model)
            fabric = Fabric(accelerator=accelerator, devices=1, precision={precision!r})
            there, optimizer = fabric.setup(there, torch.optim.SGD(there.parameters(), 0.1))
            loss = there(fabric.to_device(torch.ones(3, 4))).square().mean()
            fabric.backward(loss)
            optimizer.step()
            print(type(fabric.strategy).__name__, loss.device)
            weights.append(there.weight.detach().cpu())
        torch.testing.assert_close(*weights, rtol=1e-2, atol=1e-2)
    """
    assert python(program, imported=True).stdout.splitlines() == ["SingleDeviceStrategy cpu", "SingleHPUStrategy hpu:0"]


@needs_lightning
def test_the_names_of_before_are_filled() -> None:
    program = (
        "import habana_tf.torch.lightning\n"
        + TRAINED.format(package="lightning.pytorch")
        + """
from lightning.pytorch.accelerators import HPUAccelerator
from lightning.pytorch.plugins import HPUCheckpointIO, HPUPrecisionPlugin
from lightning.pytorch.plugins.precision.hpu import HPUPrecisionPlugin as same
from lightning.pytorch.profilers import HPUProfiler
from lightning.pytorch.strategies import HPUParallelStrategy, SingleHPUStrategy
assert same is HPUPrecisionPlugin
HPUParallelStrategy()
for given in (
    dict(strategy=SingleHPUStrategy()), dict(plugins=[HPUPrecisionPlugin(precision="bf16-mixed")]),
    dict(plugins=[HPUPrecisionPlugin("32-true"), HPUCheckpointIO()]), dict(profiler=HPUProfiler()),
):
    pl.Trainer(accelerator=HPUAccelerator(), devices=1, max_steps=1, **quiet, **given).fit(Model(), data)
try:
    HPUPrecisionPlugin("16-mixed")
except ValueError as error:
    print(error)
"""
    )
    done = python(program, imported=True)
    kinds = ["float32", "bfloat16", "float32", "float32"]
    said = [line for line in done.stdout.splitlines() if line.startswith(("step", "HPUPrecision"))]
    assert said == [
        *(f"step hpu:0 torch.{kind}" for kind in kinds),
        "HPUPrecisionPlugin has the precisions 32-true and bf16-mixed, not '16-mixed'",
    ]
    assert "HPU available: True, using: 1 HPU\n" in done.stderr


def _installed(name: str, release: str) -> bool:
    found = importlib.util.find_spec(name.replace("-", "_"))
    return found is not None and importlib.metadata.version(name).startswith(release)


@pytest.mark.skipif(
    not _installed("pytorch-lightning", "2.0"), reason="Lightning 2.0, which has an HPU, is not installed"
)
def test_lightning_2_0_has_an_accelerator_of_its_own() -> None:
    program = (
        TRAINED.format(package="pytorch_lightning")
        + """
pl.Trainer(accelerator="hpu", devices=1, max_steps=1, **quiet).fit(Model(), data)
"""
    )
    assert "step hpu:0 torch.float32" in python(program, imported=True).stdout


@pytest.mark.skipif(not _installed("lightning-habana", "1.6"), reason="lightning-habana 1.6 is not installed")
def test_lightning_habana_trains() -> None:
    program = (
        TRAINED.format(package="lightning.pytorch")
        + """
from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.strategies import SingleHPUStrategy
trainer = pl.Trainer(accelerator=HPUAccelerator(), strategy=SingleHPUStrategy(), devices=1, max_steps=1, **quiet)
trainer.fit(Model(), data)
"""
    )
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it asks `hl-smi -v` for a release
    assert "step hpu:0 torch.float32" in python(program, PATH=beside).stdout
