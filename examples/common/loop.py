"""The training loop of the larger programs: steps under a strategy, gradient accumulation, speed, checkpoints.

A batch is a function of the number of its step, so that a job that goes on from a checkpoint sees what it would have
seen, and several cards see what one card sees, each its share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.start import Run


class Trainer:
    """Trains a model step by step.

    loss: (model, batch of this card) -> sum of the losses of its examples, float32. examples: per step,
    over all cards, by which the sum is divided. accumulate: micro-batches per step; their gradients are summed on the
    card and exchanged once.
    """

    def __init__(
        self, run: Run, model: Any, optimizer: Any, loss: Callable[..., Any], examples: int,
        accumulate: int = 1, model_dir: Path | None = None, keep: int = 3,
    ) -> None:  # fmt: skip
        if examples % (accumulate * run.size):
            raise ValueError(f"{examples} examples a step are not divisible by {accumulate} parts on {run.size} cards")
        self.run, self.model, self.optimizer = run, model, optimizer
        self.examples, self.accumulate = examples, accumulate
        self._loss = loss
        self.variables = model.trainable_variables
        with run.strategy.scope():
            optimizer.build(self.variables)
            self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        # Not under the scope: each card has its own until they are exchanged.
        self._sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.variables if accumulate > 1]
        self._loss_sum = tf.Variable(0.0, trainable=False)
        self._manager = None
        if model_dir is not None:
            # All ranks take part in saving, the first one's files are kept.
            self._elsewhere = tempfile.TemporaryDirectory() if run.rank else None
            where = self._elsewhere.name if self._elsewhere else str(model_dir)
            saved = tf.train.Checkpoint(model=model, optimizer=optimizer, step=self.step)
            self._manager = tf.train.CheckpointManager(saved, where, max_to_keep=keep)
            latest = tf.train.latest_checkpoint(str(model_dir))
            if latest:
                saved.restore(latest).expect_partial()
                run.say(f"Goes on from {Path(latest).name}, step {int(self.step.numpy())}")
                self._note(latest)
        run.same([*model.variables, *optimizer.variables, self.step])

    def save(self) -> None:
        """Writes a checkpoint, if there is a model_dir."""
        if self._manager is not None:
            self._note(self._manager.save(checkpoint_number=int(self.step.numpy())))

    def _note(self, checkpoint: str) -> None:
        """Tells `habana-tf run`, which tells the user if the job fails."""
        note = os.environ.get("HABANA_SIM_CHECKPOINT_NOTE")
        if note and self.run.rank == 0:
            Path(note).write_text(checkpoint)

    def _gradients(self, batch: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = self._loss(self.model, *batch) / self.examples
        # The gradient of a lookup as a whole tensor: TensorFlow makes its rows unique on the CPU otherwise.
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(loss, self.variables)]

    @tf.function
    def _add(self, batch: Any) -> None:
        """One micro-batch: its gradients are added up on the card."""

        def work(*parts: Any) -> None:
            loss, gradients = self._gradients(parts)
            self._loss_sum.assign_add(loss)
            for total, gradient in zip(self._sums, gradients, strict=True):
                total.assign_add(gradient)

        self.run.strategy.run(work, args=batch)

    @tf.function
    def _apply(self) -> Any:
        """Exchanges what was added up, and updates."""

        def work() -> Any:
            gradients = [tf.identity(total) for total in self._sums]
            self.optimizer.apply_gradients(zip(self.run.for_optimizer(gradients), self.variables, strict=True))
            loss = self.run.total(tf.identity(self._loss_sum))
            for total in [*self._sums, self._loss_sum]:
                total.assign(tf.zeros_like(total))
            return loss

        return self._first(self.run.strategy.run(work))

    @tf.function
    def _whole(self, batch: Any) -> Any:
        """A step without accumulation."""

        def work(*parts: Any) -> Any:
            loss, gradients = self._gradients(parts)
            self.optimizer.apply_gradients(zip(self.run.for_optimizer(gradients), self.variables, strict=True))
            return self.run.total(loss)

        return self._first(self.run.strategy.run(work, args=batch))

    def _first(self, value: Any) -> Any:
        return self.run.strategy.experimental_local_results(value)[0]

    def train(self, batch: tuple[Any, ...]) -> Any:
        """One step on a global batch of arrays; gives the mean loss of its examples, a scalar tensor."""
        mine = self.run.share(batch)
        if self.accumulate == 1:
            loss = self._whole(tuple(tf.convert_to_tensor(each) for each in mine))
        else:
            rows = len(mine[0]) // self.accumulate
            for k in range(self.accumulate):
                part = slice(k * rows, (k + 1) * rows)
                self._add(tuple(tf.convert_to_tensor(each[part]) for each in mine))
            loss = self._apply()
        self.step.assign_add(1)
        return loss

    def fit(
        self, batch_at: Callable[[int], tuple[Any, ...]], steps: int, log_every: int = 20,
        save_every: int = 0, evaluate: Callable[[], str] | None = None, eval_every: int = 0, unit: str = "images",
        before: Callable[[int], None] | None = None,
    ) -> list[float]:  # fmt: skip
        """Trains up to a number of steps. Says loss and speed, saves and evaluates every so often (0: in the end).

        batch_at: step -> global batch. before: called before each step. Gives the losses that were printed. The speed
        leaves out evaluation and saving; the first line has the first step alone, as it compiles.
        """
        losses: list[float] = []
        first = int(self.step.numpy())
        since, began, seconds, done = first, time.perf_counter(), 0.0, 0
        for step in range(first, steps):
            if before:
                before(step)
            loss = self.train(batch_at(step))
            now = step + 1
            if now == first + 1 or now % log_every == 0 or now == steps:
                losses.append(float(loss))
                passed = time.perf_counter() - began
                rate = f"{(now - since) * self.examples / passed:.0f} {unit}/s"
                if now == first + 1:
                    rate = f"first step {passed:.1f} s, compilation included"
                else:
                    seconds, done = seconds + passed, done + now - since
                self.run.say(f"step {now}/{steps}, loss {losses[-1]:.4f}, {rate}")
                since, began = now, time.perf_counter()
            if save_every and now % save_every == 0 and now < steps:
                paused = time.perf_counter()
                self.save()
                began += time.perf_counter() - paused
            if evaluate and eval_every and now % eval_every == 0 and now < steps:
                paused = time.perf_counter()
                self.run.say(f"step {now}/{steps}, {evaluate()}")
                began += time.perf_counter() - paused
        self.save()
        if done:
            self.run.say(f"{done * self.examples / seconds:.0f} {unit}/s on {self.run.size} card(s), {seconds:.1f} s "
                         f"for {done} steps")  # fmt: skip
        if evaluate:
            self.run.say(f"step {steps}/{steps}, {evaluate()}")
        return losses
