"""What a training job has to reach: so many examples per second, or an end within so many hours."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECONDS_PER_HOUR = 3600.0
HOURS = {
    **dict.fromkeys(("h", "hour", "hours"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 1 / 60),
    **dict.fromkeys(("d", "day", "days"), 24.0),
}
_TARGET = re.compile(
    r"\s*([\d.,_]+)\s*(?:(h|hours?|min(?:utes?)?|d|days?)|[A-Za-z]*\s*(?:/|per)\s*(?:s|sec|second))\s*"
)


@dataclass(frozen=True)
class TrainingTarget:
    """rate: examples per second that reach it. examples: of the whole job, where that is known."""

    text: str
    rate: float
    examples: float | None = None

    def hours(self, rate: float) -> float | None:
        """That the job takes at so many examples per second."""
        return self.examples / rate / SECONDS_PER_HOUR if self.examples is not None and rate else None


def target(text: str, dataset_size: int | None, epochs: float) -> TrainingTarget:
    """A target as people write it: "10,000 examples/s" (or images/s, sequences/s, ...), "8 hours", "90 min", "2 days".

    dataset_size: examples of one epoch; a time needs it. Raises ValueError for another text and for numbers that
    cannot be.
    """
    found = _TARGET.fullmatch(text) if isinstance(text, str) else None
    try:
        number = float(found[1].replace(",", "").replace("_", "")) if found else 0.0
    except ValueError:
        number = 0.0
    if not found or number <= 0:
        raise ValueError(f'target={text!r}: write it like "10000 examples/s", "8 hours", "90 min" or "2 days"')
    if dataset_size is not None and dataset_size < 1 or epochs <= 0:
        raise ValueError(f"dataset_size={dataset_size}, epochs={epochs}: give how many examples are trained on")
    examples = None if dataset_size is None else dataset_size * float(epochs)
    if not found[2]:
        return TrainingTarget(text.strip(), number, examples)
    if examples is None:
        raise ValueError(f"target={text!r} needs dataset_size=, the examples of one epoch (and epochs=, if not 1)")
    return TrainingTarget(text.strip(), examples / (number * HOURS[found[2]] * SECONDS_PER_HOUR), examples)
