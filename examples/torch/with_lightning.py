"""Lightning trains on the simulated Gaudi: `Trainer(accelerator="hpu")`.

    python examples/torch/with_lightning.py
    python examples/torch/with_lightning.py --devices 2 --precision bf16-mixed

Lightning starts the processes of several cards itself. `import habana_tf.torch.lightning` is all that is added to a
program for another accelerator. `PT_HPU_LAZY_MODE=0` runs it eagerly.
"""

from __future__ import annotations

import argparse
import logging
import os

os.environ.setdefault("PT_HPU_LAZY_MODE", "1")  # is read when the device is loaded

import lightning as L
import torch
from digits import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import habana_tf.torch.lightning  # noqa: F401


class Digits(L.LightningModule):
    """Images [batch, 1, 8, 8] to logits [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        return F.cross_entropy(self.layers(batch[0]), batch[1])

    def test_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        right = (self.layers(batch[0]).argmax(1) == batch[1]).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--precision", default="32-true", help="or bf16-mixed")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    L.seed_everything(1, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    training, test = datasets()
    trainer = L.Trainer(
        accelerator="hpu", devices=options.devices, precision=options.precision, max_epochs=options.epochs,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    model = Digits()
    trainer.fit(model, DataLoader(training, 50, shuffle=True, drop_last=True))
    (result,) = trainer.test(model, DataLoader(test, 99), verbose=False)
    if trainer.is_global_zero:
        print(
            f"test accuracy: {result['accuracy']:.1%} on {trainer.world_size} card(s), {trainer.strategy.root_device}"
        )


if __name__ == "__main__":
    main()
