"""Beam search beside searches in NumPy, on a network that is a table: the chances of a word after the last one."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.examples.programs import EXAMPLES

sys.path.append(str(EXAMPLES))
WORDS, LENGTH, BEGIN, END, BATCH = 4, 4, 3, 0, 3
Sequence = tuple[int, ...]


def tables(seed: int) -> np.ndarray:
    """Logits [sentence, place, last word but one, last word, word]: the memory counts, not the last word alone."""
    return np.random.default_rng(seed).normal(0, 1.5, (BATCH, LENGTH, WORDS, WORDS, WORDS)).astype(np.float32)


def search(table: np.ndarray, beams: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    from common import beam

    def step(words: tf.Tensor, at: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """kept: the last word but one."""
        before = tf.cast(kept[:, 0], tf.int32)
        sentence = tf.repeat(tf.range(BATCH), beams)
        logits = tf.gather_nd(tf.gather(table, at, axis=1), tf.stack([sentence, before, words], axis=1))
        return logits, tf.cast(words, tf.float32)[:, None]

    @tf.function
    def whole() -> tuple[tf.Tensor, tf.Tensor]:
        return beam.search(step, tf.fill([BATCH * beams, 1], float(BEGIN)), BATCH, beams, LENGTH, BEGIN, END, alpha)

    texts, scores = whole()
    return texts.numpy(), scores.numpy()


def chances(table: np.ndarray, sequence: Sequence) -> np.ndarray:
    """Log-probabilities of each next word after a sequence, in float64."""
    before, last = ((BEGIN, BEGIN, *sequence))[-2:]
    logits = table[len(sequence), before, last].astype(np.float64)
    return logits - np.log(np.exp(logits).sum())


def score(table: np.ndarray, sequence: Sequence, alpha: float) -> float:
    total = sum(chances(table, sequence[:k])[word] for k, word in enumerate(sequence))
    return float(total / ((5 + len(sequence)) / 6) ** alpha)


def whole(sequence: Sequence) -> bool:
    return len(sequence) == LENGTH or END in sequence


def all_sequences() -> list[Sequence]:
    """Those that end, and those that are cut."""
    every = (one for n in range(1, LENGTH + 1) for one in itertools.product(range(WORDS), repeat=n))
    return [one for one in every if END not in one[:-1] and whole(one)]


def in_plain_python(table: np.ndarray, beams: int, alpha: float) -> list[Sequence]:
    """The same rule with lists: the best so many among those that ended and each of the others and a word."""
    kept: list[Sequence] = [()]
    for _ in range(LENGTH):
        longer = [one if END in one else (*one, word) for one in kept for word in range(WORDS)]
        kept = sorted(set(longer), key=lambda one: -score(table, one, alpha))[:beams]
    return kept


def padded(sequence: Sequence) -> list[int]:
    return [*sequence, *[END] * (LENGTH - len(sequence))]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_enough_beams_find_the_best_of_all(alpha: float) -> None:
    """Beams for every sequence leave nothing out, and all come in the order of their scores."""
    every = all_sequences()
    table = tables(1)
    texts, scores = search(table, len(every), alpha)
    for row in range(BATCH):
        best = sorted(every, key=lambda one: -score(table[row], one, alpha))
        assert [list(text) for text in texts[row]] == [padded(one) for one in best]
        np.testing.assert_allclose(scores[row], [score(table[row], one, alpha) for one in best], rtol=1e-5)


@pytest.mark.parametrize("beams", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_few_beams(beams: int, seed: int) -> None:
    table = tables(seed)
    texts, _ = search(table, beams, 0.6)
    for row in range(BATCH):
        assert [list(text) for text in texts[row]] == [padded(one) for one in in_plain_python(table[row], beams, 0.6)]


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy(seed: int) -> None:
    table = tables(seed)
    texts, _ = search(table, 1, 0.6)
    for row in range(BATCH):
        greedy: Sequence = ()
        while not whole(greedy):
            greedy = (*greedy, int(chances(table[row], greedy).argmax()))
        assert list(texts[row, 0]) == padded(greedy)
