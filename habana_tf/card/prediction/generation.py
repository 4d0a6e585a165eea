"""How fast a language model answers on cards, and what it needs of them: the result of `predict_generation`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.hardware.boxes import Box
from habana_tf.hardware.chips import Chip

GRAPH_BYTES = 10 << 20
"""Of a captured HPU graph. Source: the calculator of memory in the container of vLLM for Gaudi (its rows of LLaMA)."""
COMPILE_SECONDS = 49 / 72
"""Of a program of 32 layers. Source: the log in vLLM's documentation of its warm-up, 72 programs in 49 s on Gaudi 2. It
is an order of magnitude: servers of larger models in Intel's tutorials take about 15 minutes."""
LAYERS = 32


@dataclass(frozen=True)
class GenerationPrediction:
    """Answers of output_length tokens to prompts of input_length, of `batch` sequences at once, on tp cards.

    first_token: seconds to it. token: seconds of one after it, by how many tokens are before it. seconds: of the whole
    answer. Bytes of one card: of its weights; of keys and values; of what is alive at most besides these, with the
    prompt or with a token (activations); of HPU graphs. largest_batch: sequences that fit, 0 where the weights do not.
    programs: forward passes that a card compiles before it answers, with all buckets; layers: of the model."""

    chip: Chip
    box: Box
    release: str
    tp: int
    batch: int
    input_length: int
    output_length: int
    precision: str
    kv_precision: str
    kv_cache: str
    first_token: float
    token: dict[int, float]
    seconds: float
    weights: int
    cached: int
    activations: int
    largest_batch: int
    programs: int
    layers: int

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all sequences, with the time to the first."""
        return self.batch * self.output_length / self.seconds

    @property
    def graphs(self) -> int:
        """Bytes of the HPU graphs of all programs."""
        return self.programs * GRAPH_BYTES

    @property
    def memory(self) -> int:
        """Bytes of one card."""
        return self.weights + self.cached + self.activations + self.graphs

    @property
    def fits(self) -> bool:
        return self.batch <= self.largest_batch

    @property
    def warm_up(self) -> float:
        """Seconds to compile all programs, roughly: see COMPILE_SECONDS."""
        return self.programs * COMPILE_SECONDS * self.layers / LAYERS

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it, in seconds and bytes."""
        found = {**asdict(self), "chip": self.chip.name, "box": self.box.name}
        more = ("tokens_per_second", "graphs", "memory", "fits", "warm_up")
        return {**found, **{name: getattr(self, name) for name in more}}

    def __str__(self) -> str:
        cards = f"{self.tp} cards" if self.tp > 1 else "one card"
        kept = "" if self.kv_precision == self.precision else f", keys and values in {self.kv_precision}"
        each = ", ".join(f"{seconds * 1e3:.2f} ms after {length:,}" for length, seconds in sorted(self.token.items()))
        parts = {"weights": self.weights, "keys and values": self.cached, "activations": self.activations,
                 "graphs": self.graphs}  # fmt: skip
        gib = ", ".join(f"{name} {n / 2**30:.2f}" for name, n in parts.items())
        more = "" if self.fits else ": this batch does not fit"
        return "\n".join([
            f"{self.chip.product}, {cards}, {self.precision}{kept}, {self.batch:,} x {self.input_length:,} tokens in "
            f"and {self.output_length:,} out: {self.tokens_per_second:,.1f} tokens/s",
            f"first token {self.first_token * 1e3:.2f} ms; a token {each or 'none'}",
            f"{self.memory / 2**30:.2f} GiB a card ({gib}); {self.largest_batch:,} sequences fit{more}",
            f"{self.programs} programs to compile, about {self.warm_up:.0f} s",
        ])  # fmt: skip


def between(known: Sequence[tuple[float, float]], at: float) -> float:
    """The value on the lines between known ones, which are in order; at the ends theirs."""
    for (low, a), (high, b) in itertools.pairwise(known):
        if at <= high:
            return a + (b - a) * (max(at, low) - low) / (high - low)
    return known[-1][1]
