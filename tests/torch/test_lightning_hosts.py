"""Lightning over two hosts: machines of their own in network namespaces, which reach each other over a cable."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.child import environment, python
from tests.launcher.hosts import hosts, needs_namespaces
from tests.torch.child import needs_torch

pytestmark = [
    needs_torch,
    needs_namespaces,
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None, reason="Lightning is not installed: pip install lightning"
    ),
]

PROGRAM = """
import json, sys
import torch
import lightning.pytorch as pl
import habana_tf.torch.lightning

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        self.losses = []

    def training_step(self, batch, number):
        loss = self.layers(batch[0]).square().mean()
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def on_train_epoch_end(self):
        self.losses.append(self.trainer.callback_metrics["loss"].item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

accelerator, devices, nodes, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.manual_seed(0)
model = Model()
examples = torch.rand(8, 4)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(examples), batch_size=8 // (devices * nodes))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = pl.Trainer(accelerator=accelerator, devices=devices, num_nodes=nodes, max_epochs=3, **quiet)
trainer.fit(model, data)
weights = [p.detach().cpu().tolist() for p in model.parameters()]
exchanged = nodes > 1 and torch.distributed.group.WORLD._exchange is not None
with open(f"{folder}/{trainer.global_rank}", "w") as file:
    json.dump([trainer.world_size, exchanged, model.losses, weights], file)
"""


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.rest)])
def test_two_hosts_train_as_one_process_with_the_whole_batch(devices: int, tmp_path: Path) -> None:
    """As Lightning documents it for a cluster without a scheduler: MASTER_ADDR, MASTER_PORT and NODE_RANK."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    python(PROGRAM, "cpu", "1", "1", str(alone), imported=True)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM))
    with hosts(2, tmp_path) as (made, shell):
        env = environment(
            HABANA_SIM_CARDS="2", HABANA_SIM_THREADS="1", MASTER_ADDR=made[0].address, MASTER_PORT="29511"
        )
        words = [sys.executable, str(script), "hpu", str(devices), "2", str(together)]
        jobs = [
            subprocess.Popen(
                [str(shell), host.address, *words], env={**env, "NODE_RANK": str(node)}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for node, host in enumerate(made)
        ]  # fmt: skip
        try:
            said = [job.communicate(timeout=300)[0] for job in jobs]
        finally:
            for job in jobs:
                job.kill()
    assert [job.returncode for job in jobs] == [0, 0], "\n".join(said)[-6000:]
    ranks: list[Any] = [json.loads((together / str(rank)).read_text()) for rank in range(2 * devices)]
    (_, _, losses, weights) = json.loads((alone / "0").read_text())
    assert [rank[:2] for rank in ranks] == [[2 * devices, False]] * (2 * devices)  # sums of hosts go over the network
    for _, _, own_losses, own_weights in ranks:
        assert own_weights == ranks[0][3]
        assert own_losses == pytest.approx(losses, rel=1e-5)
        for mine, whole in zip(own_weights, weights, strict=True):
            assert _flat(mine) == pytest.approx(_flat(whole), rel=1e-4, abs=1e-6)


def _flat(value: Any) -> list[float]:
    return [x for v in value for x in _flat(v)] if isinstance(value, list) else [value]
