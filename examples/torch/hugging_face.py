"""A small BERT of Hugging Face's transformers is fine-tuned by its Trainer: which trade is a tale about?

    python examples/torch/hugging_face.py

The model is made from a configuration and the tales by a grammar (`examples/common/tales.py`): nothing is downloaded.
The trade's name is left out of its tale; its tools and goods are not. `PT_HPU_LAZY_MODE=0` runs it eagerly.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("PT_HPU_LAZY_MODE", "1")  # is read when the device is loaded
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from common import tales
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import habana_frameworks.torch.core as htcore

PADDING, UNKNOWN, LENGTH = 0, 1, 48


def told(seed: int) -> tuple[list[str], int]:
    """The words of three sentences of a tale, and the number of the trade that it is about."""
    random = np.random.default_rng(seed)
    about = tales.facts(random)
    words = [word for which in (2, 3, 4) for word in tales.sentence(random, about, which)]
    return ["..." if word == about["trade"] else word for word in words], list(tales.TRADES).index(about["trade"])


def dataset(texts: list[tuple[list[str], int]], vocabulary: dict[str, int]) -> list[dict[str, Any]]:
    """What Trainer takes: all texts are padded to one length, so that all batches are one program."""
    rows = []
    for words, label in texts:
        numbers = torch.tensor([vocabulary.get(word, UNKNOWN) for word in words][:LENGTH])
        padded = torch.nn.functional.pad(numbers, (0, LENGTH - len(numbers)), value=PADDING)
        rows.append({"input_ids": padded, "attention_mask": (padded != PADDING).long(), "labels": label})
    return rows


class Steps(TrainerCallback):
    """Ends a step in lazy mode after the gradients and after the weights."""

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        htcore.mark_step()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        htcore.mark_step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--tales", type=int, default=800)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    texts = [told(seed) for seed in range(options.tales + 200)]
    words = sorted({word for text, _ in texts[200:] for word in text})
    rows = dataset(texts, {word: k + 2 for k, word in enumerate(words)})
    config = BertConfig(
        vocab_size=len(words) + 2, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=LENGTH, num_labels=len(tales.TRADES),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, num_train_epochs=options.epochs, per_device_train_batch_size=options.batch_size,
            per_device_eval_batch_size=50, learning_rate=3e-3, warmup_steps=10, logging_steps=25, save_strategy="no",
            report_to=[], dataloader_drop_last=True, bf16=options.bf16, seed=1, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            BertForSequenceClassification(config), settings, train_dataset=rows[200:], eval_dataset=rows[:200],
            compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(1) == p.label_ids).mean())},
            callbacks=[Steps()],
        )  # fmt: skip
        print(f"{sum(p.numel() for p in trainer.model.parameters()):,} weights on {trainer.args.device}")
        trainer.train()
        print(f"test accuracy: {trainer.evaluate()['eval_accuracy']:.1%}")


if __name__ == "__main__":
    main()
