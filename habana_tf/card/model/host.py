"""What a host gives to the cards of its box and does for each step: its input pipeline, and Python.

    input of a step    the examples of all cards of the box / examples per second that the host's pipeline gives
    a step             the longest of card, input and Python, which work at once: the next batch is loaded, and the next
                       step's Python runs, while the card computes
    without prefetch   the sum of the three: the program loads a batch, starts the step and waits for it

Nothing here depends on the chip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PYTHON_SECONDS = 300e-6
"""What calling one `tf.function` takes at least that captures 100 variables. Measured, as the least of 200 means over
20 calls with TensorFlow 2.15.1 on a Xeon with AVX-512 that others used too: 0.17 ms with no variable, 0.31 ms with
100, 0.72 ms with 400, and 0.53 ms for a step of Keras' `fit`. Scripts that start each op alone take milliseconds."""


@dataclass(frozen=True)
class Host:
    """What is known of the hosts that feed the cards, each of them one box of up to eight cards.

    input_rate: examples per second of the input pipeline; None where it is not known, and then nothing waits for it.
    loaders: None if that is the rate of a whole host, whose cards share it (tf.data with all cores of the machine).
    Otherwise so many loader processes work for each card (PyTorch's `num_workers`), and input_rate is that of one.
    python_seconds: of each micro-batch, see PYTHON_SECONDS.
    prefetch: whether the host works ahead while the card computes; without it a step takes the sum of both.

    Raises ValueError for a number that cannot be.
    """

    input_rate: float | None = None
    loaders: int | None = None
    python_seconds: float = PYTHON_SECONDS
    prefetch: bool = True
    source: str = "given"
    """Where the rate is from, for reports."""

    def __post_init__(self) -> None:
        if self.input_rate is not None and not 0 < self.input_rate < math.inf:
            raise ValueError(f"input_rate={self.input_rate!r}: give examples per second, more than 0, or None")
        if self.loaders is not None and self.loaders < 1:
            raise ValueError(f"loaders={self.loaders!r}: give the loader processes of one card, at least 1, or None")
        if not 0 <= self.python_seconds < math.inf:
            raise ValueError(f"python_seconds={self.python_seconds!r}: give the seconds of one step, 0 or more")

    def rate(self, cards: int) -> float:
        """Examples per second for all of so many cards of one box; infinite where it is not known."""
        if self.input_rate is None:
            return math.inf
        return self.input_rate if self.loaders is None else self.input_rate * self.loaders * cards

    def input_seconds(self, batch: int, cards: int) -> float:
        """Of a step with `batch` examples on each of so many cards of one box."""
        return batch * cards / self.rate(cards)

    def step_seconds(self, card: float, batch: int, cards: int) -> float:
        """Of a step that the cards alone would need `card` seconds for."""
        return self._together(card, self.python_seconds, self.input_seconds(batch, cards))

    def fed_seconds(self, card: float) -> float:
        """The same with an input that gives all that is asked for."""
        return self._together(card, self.python_seconds)

    def pipelines_needed(self, card: float, batch: int, cards: int) -> int | None:
        """So many loader processes for each card, or (without `loaders`) such pipelines on each host, with which no
        step waits for its input if it is loaded ahead. None where the rate of one is not known."""
        if self.input_rate is None:
            return None
        examples = batch if self.loaders is not None else batch * cards
        step = max(card, self.python_seconds)
        return max(1, math.ceil(examples / step / self.input_rate * (1 - 1e-9))) if step else None

    def _together(self, *parts: float) -> float:
        return max(parts) if self.prefetch else sum(parts)


UNKNOWN = Host(python_seconds=0.0)
"""A host that nothing waits for."""
