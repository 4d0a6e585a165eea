"""`predict_generation()`: how fast a language model would answer, from recordings of its own forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from habana_tf.card.model.parameters import FITTED, LATEST, check_release
from habana_tf.card.prediction.generation import GRAPH_BYTES, GenerationPrediction, between
from habana_tf.hardware.boxes import box as box_named
from habana_tf.hardware.chips import Chip
from habana_tf.hardware.chips import chip as chip_named

if TYPE_CHECKING:
    from habana_tf.torch.dry_run.forward_passes import Meter
    from habana_tf.torch.dry_run.generation import Forward

PRECISIONS = ("bf16", "fp8", "fp32")
CACHES = ("static", "growing")
_LENGTHS = 5
"""Lengths at which a token is recorded, about; those between are interpolated."""
_TRIES = 4
"""Batches that are recorded to find the largest."""


def predict_generation(
    model: Any, input_length: int, output_length: int, batch: int = 1, tp: int = 1, precision: str = "bf16",
    kv_cache: str = "static", kv_precision: str | None = None, buckets: int | Sequence[int] | None = None,
    batch_buckets: Sequence[int] = (), attention: str = "fused", chip: str | None = None, box: str | None = None,
    release: str = LATEST, batch_split: int = 1,
) -> GenerationPrediction:  # fmt: skip
    """How fast a causal language model of `transformers` answers, without weights and without a card.

    model: its configuration, or a model, of which the configuration is taken. Prompts are of input_length tokens,
    batch of them at once, answers of output_length.
    tp: cards that share the weights, by the configuration's own plan of tensor parallelism.
    precision: "bf16", "fp32", or "fp8": weights of linear layers and what they multiply in float8_e4m3fn.
    kv_cache: "static", with room for the whole answer from the beginning, or "growing", longer by a row each token.
    kv_precision: of keys and values, and of attention's products; by default that of precision.
    buckets: lengths that prompts are padded to, and that a static cache is cut to for a token: a step (its multiples),
    or a list; the cache has the prompt's length until the prompt is done. Without them a prompt has its length, and a
    token reads all of a static cache.
    batch_buckets: sizes of batches that are compiled for besides `batch`, which count as programs.
    attention: "fused" (FusedSDPA), or an implementation of transformers: "sdpa", "eager".
    batch_split: parts of a batch of prompts that take turns in each layer (optimum-habana's `--attn_batch_split`): less
    is alive at once, and cards sum the results of one part while they compute another.

    Raises ValueError for lengths, a tp, precision, cache or bucket that cannot be, for 8-bit floats on a chip that has
    none, and for a model whose layers are shared in a way that is not known.
    """
    known = chip_named(chip)
    machine, parameters = box_named(known, box), FITTED.at(check_release(release))
    kept = kv_precision or precision
    _check(known, (input_length, output_length, batch, tp, batch_split, *batch_buckets), precision, kept, kv_cache)
    from habana_tf.torch import loader
    from habana_tf.torch.dry_run.forward_passes import Meter
    from habana_tf.torch.dry_run.generation import Setting

    loader.load()
    meter = Meter(Setting(getattr(model, "config", model), tp, precision, kept, attention), known, machine, parameters)
    answer = Answer(input_length, output_length, kv_cache == "growing", buckets, batch_split)
    return predicted(meter, answer, batch, batch_buckets, release)


def predicted(
    meter: Meter, answer: Answer, batch: int, batch_buckets: Sequence[int], release: str
) -> GenerationPrediction:
    """The same of one model on its cards, which the meter may have measured before with other batches and lengths."""
    batch_split, setting = answer.split, meter.setting
    prompt = answer.prompt(batch)
    chosen = answer.reads[:: -(-len(answer.reads) // _LENGTHS) or 1] + answer.reads[-1:]
    found = meter([prompt, *(answer.token(batch, rows) for rows in chosen)])
    first = found[prompt]
    of_tokens = {rows: found[answer.token(batch, rows)] for rows in sorted(set(chosen))}
    tokens = [(float(rows), each.seconds()) for rows, each in of_tokens.items()]
    prompts = first.seconds(batch_split)

    def seconds(before: int) -> float:
        return between(tokens, answer.rows(before))

    cached = max((each.cached for each in of_tokens.values()), default=first.cached * batch / prompt.batch)

    def alive(size: int) -> float:
        """Bytes besides weights and graphs when most are alive, of the prompt or of a token."""
        prompt = answer.prompt(size)
        waiting = (batch_split - 1) * prompt.batch * prompt.tokens * meter.row_bytes
        part = meter([prompt])[prompt]
        token = max((each.cached + each.activations for each in of_tokens.values()), default=0.0)
        return max(part.cached * size / prompt.batch + part.activations + waiting, token * size / batch)

    programs = sum(_programs(meter, answer, size) for size in {batch, *batch_buckets})
    room = meter.chip.hbm_bytes - meter.chip.idle_memory_bytes - first.weights - programs * GRAPH_BYTES
    return GenerationPrediction(
        meter.chip, meter.box, release, setting.tp, batch, answer.given, answer.longest - answer.given,
        setting.precision, setting.kv_precision, "growing" if answer.grows else "static", prompts,
        {before: seconds(before) for before in answer.shown}, prompts + sum(map(seconds, answer.lengths)),
        round(first.weights), round(cached), round(alive(batch) - cached), _largest(room, batch, alive), programs,
        meter.layers,
    )  # fmt: skip


def _programs(meter: Meter, answer: Answer, batch: int) -> int:
    """How many programs answers of a batch take."""
    passes = [answer.prompt(batch), *(answer.token(batch, rows) for rows in answer.reads)]
    if not answer.grows or len(passes) < 4:
        return meter.programs(passes)
    few = [meter.programs(passes[:n]) for n in (2, 3)]  # each further length has as many of its own
    return few[0] + (len(passes) - 2) * (few[1] - few[0])


def _check(chip: Chip, counts: Sequence[int], precision: str, kept: str, kv_cache: str) -> None:
    if min(counts) < 1:
        raise ValueError("input_length, output_length, batch, tp, batch_split and batch_buckets are at least 1")
    if (
        precision not in PRECISIONS
        or kept not in (precision, "fp8", "bf16" if precision == "fp8" else "fp8")
        or kv_cache not in CACHES
    ):
        raise ValueError(
            f"precision={precision!r}, kv_precision={kept!r}, kv_cache={kv_cache!r}: one of {', '.join(PRECISIONS)}, "
            f"keys and values in that or in fp8, a cache that is {' or '.join(CACHES)}"
        )
    if "fp8" in (precision, kept) and chip.float8_e4m3_largest is None:
        raise ValueError(f"{chip.product} has no 8-bit floats: precision bf16, or chip gaudi2 or gaudi3")


def _largest(room: float, batch: int, needed: Callable[[int], float]) -> int:
    """The largest batch whose needs fit in so many bytes; they grow about as it does."""
    size, best = batch, 0
    for _ in range(_TRIES):
        needs = needed(size)
        if needs <= room:
            best = max(best, size)
        guess = int(size * room / needs)
        if guess <= best:
            break
        size = guess
    return best


class Answer:
    """Which forward passes an answer has. given, longest: tokens of the prompt, and with the answer; split: parts of a
    batch of prompts; lengths: tokens before each that follows the first; reads: numbers of rows that these read."""

    def __init__(
        self, prompt: int, answer: int, grows: bool, buckets: int | Sequence[int] | None, batch_split: int
    ) -> None:
        self.grows, self._buckets, self.split = grows, buckets, batch_split
        self.given, self.longest = prompt, prompt + answer
        self._prompt = self._bucket(prompt) if buckets else prompt
        longest = self._bucket(self.longest)
        self._room = 0 if grows else self._prompt if buckets else longest
        self.lengths = range(prompt, self.longest - 1)
        self.reads = sorted({self.rows(before) for before in self.lengths})
        self.shown = sorted({self.lengths[k] for k in (0, len(self.lengths) // 2, -1)}) if self.lengths else []

    def _bucket(self, length: int) -> int:
        """What a length is padded to; without buckets that of the longest answer."""
        if self._buckets is None:
            return self.longest
        if isinstance(self._buckets, int):
            if self._buckets < 1:
                raise ValueError(f"buckets={self._buckets}: a step of 1 token at least")
            return -(-length // self._buckets) * self._buckets
        found = min((bucket for bucket in self._buckets if bucket >= length), default=None)
        if found is None:
            raise ValueError(f"buckets={list(self._buckets)}: none has room for {length} tokens")
        return found

    def rows(self, before: int) -> int:
        """How many rows a token reads after so many tokens, its own included."""
        return before + 1 if self.grows else self._bucket(before + 1)

    def prompt(self, size: int) -> Forward:
        """The pass of the prompts of a batch, or of the largest part of it."""
        from habana_tf.torch.dry_run.generation import Forward

        return Forward(-(-size // self.split), self._prompt, 0, self._room)

    def token(self, size: int, rows: int) -> Forward:
        """The pass of one more token that reads so many rows."""
        from habana_tf.torch.dry_run.generation import Forward

        return Forward(size, 1, rows - 1, 0 if self.grows else rows)
