"""A Keras callback that logs how fast the card would have been, beside how fast this host was."""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from typing import Any

import tensorflow as tf

from habana_tf.card.clock import counted, report
from habana_tf.hardware import ranks
from habana_tf.hardware.chips import chip as chip_named

_log = logging.getLogger("habana_tf")


class CardTimeCallback(tf.keras.callbacks.Callback):
    """Adds two numbers to the logs of each epoch, so that the progress bar, `History` and other callbacks have them.

        model.fit(..., callbacks=[habana_tf.CardTimeCallback()])

    card_examples_per_second: predicted, for the launches of the epoch's training on the card. examples_per_second: of
    the same on this host, compilations included. Both are of all cards, where a strategy or a launcher has several;
    validation counts for neither.

    chip: "gaudi", "gaudi2" or "gaudi3", by default what HABANA_SIM_CHIP says. cards: to predict for, by default
    as many as train: the strategy's replicas, or the processes that the launcher started. batch_size: examples per step
    on each card; by default they are counted by the loss that Keras keeps, which needs its own `train_step`. Raises
    ValueError for an unknown chip and for numbers below 1.
    """

    def __init__(self, chip: str | None = None, cards: int | None = None, batch_size: int | None = None) -> None:
        super().__init__()
        for name, value in (("cards", cards), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise ValueError(f"CardTimeCallback: {name}={value} is not allowed: use 1 or more")
        self._chip = chip_named(chip)
        self._asked, self._batch = cards, batch_size
        self._running = False
        self._warned = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begins the epoch's counts."""
        self._card = self._host = 0.0
        self._steps = 0
        self._examples: float | None = None
        self._begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """One more step, or as many as Keras takes at once."""
        self._steps = batch + 1

    def on_test_begin(self, logs: Any = None) -> None:
        """Validation within an epoch does not count, and clears what the loss has counted."""
        if self._running:
            self._end()

    def on_epoch_end(self, epoch: int, logs: MutableMapping[str, Any] | None = None) -> None:
        """Adds the numbers to the logs."""
        if self._running:
            self._end()
        if logs is None:
            return
        if self._examples is None:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "CardTimeCallback: this model's train_step does not keep Keras' loss, which counts examples: pass "
                    "batch_size= for examples per second"
                )
            return
        if self._card > 0:
            logs["card_examples_per_second"] = self._examples * (self._asked or self._training()) / self._card
        if self._host > 0:
            logs["examples_per_second"] = self._examples * self._training() / self._host

    def _begin(self) -> None:
        self._running = True
        self._before = counted.now()
        self._clock = time.perf_counter()

    def _end(self) -> None:
        self._running = False
        examples = self._steps * self._batch if self._batch is not None else self._counted()  # waits for the launches
        self._host += time.perf_counter() - self._clock
        since = counted.now().after(self._before)
        self._card += report.of(since, self._chip, self._asked or self._training()).seconds
        self._examples = examples

    def _training(self) -> int:
        """Cards that train together."""
        return max(int(self.model.distribute_strategy.num_replicas_in_sync), ranks.here().size)

    def _counted(self) -> float | None:
        """This card's examples of the epoch so far, as the mean of the loss has counted them."""
        mean = getattr(self.model, "_loss_tracker", None)  # Keras 3
        if mean is None:
            mean = getattr(getattr(self.model, "compiled_loss", None), "_total_loss_mean", None)  # Keras 2
        if mean is None:
            return None
        count = getattr(mean.count, "_value", mean.count)
        mine = getattr(count, "values", (count,))[0]  # of this replica: a sum over all would wait for the others
        return float(mine.numpy()) or None
