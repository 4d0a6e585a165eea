"""Beam search with what the network remembers kept on the card: one function, the loop over the words within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

LOWEST = -1e9


def penalty(length: Any, alpha: float) -> Any:
    """What the log-probability of so many words is divided by (arXiv 1609.08144, equation 14): alpha 0 is 1."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def search(
    step: Callable[[Any, Any, Any], tuple[Any, Any]], kept: Any, batch: int, beams: int, length: int, begin: int,
    end: int, alpha: float,
) -> tuple[Any, Any]:  # fmt: skip
    """The likeliest sequences of words: int32 [batch, beams, length], the best first, and their scores [batch, beams].

    step: (words [batch * beams], their place, kept) -> logits [batch * beams, vocabulary], kept. kept: a tensor with
    batch * beams rows, of no words. A sequence starts after `begin`, is filled with `end` from the first one on, and
    scores its log-probability, `end` included, over its penalty. With one beam it is the greedy search.

    All sizes are numbers, so that the loop is part of the launch; a tensor as its bound would be a launch per word.
    A sequence that has ended keeps its place among the beams for as long as it is among the best.
    """
    rows = tf.range(batch)[:, None] * beams

    def more(at: Any, texts: Any, total: Any, lengths: Any, kept: Any) -> tuple[Any, ...]:
        last = tf.gather(texts, at, axis=2)
        logits, kept = step(tf.reshape(last, [batch * beams]), at, kept)
        words = logits.shape[-1]
        chances = tf.reshape(tf.nn.log_softmax(logits), [batch, beams, words])
        ended = (last == end) & (at > 0)
        only_end = tf.where(tf.range(words) == end, 0.0, LOWEST)
        sums = total[:, :, None] + tf.where(ended[:, :, None], only_end, chances)
        lengths = tf.where(ended, lengths, at + 1)
        ranked = sums / penalty(lengths, alpha)[:, :, None]
        best = tf.math.top_k(tf.reshape(ranked, [batch, beams * words]), beams).indices
        parent, word = best // words, best % words
        here = tf.range(length + 1) == at + 1
        texts = tf.where(here, word[:, :, None], tf.gather(texts, parent, batch_dims=1))
        total = tf.gather(tf.reshape(sums, [batch, beams * words]), best, batch_dims=1)
        lengths = tf.gather(lengths, parent, batch_dims=1)
        return at + 1, texts, total, lengths, tf.gather(kept, tf.reshape(rows + parent, [batch * beams]))

    texts = tf.fill([batch, beams, length + 1], begin)
    # One beam begins: the others would find the same sequences again.
    total = tf.tile(tf.where(tf.range(beams) == 0, 0.0, LOWEST)[None], [batch, 1])
    first = (tf.constant(0), texts, total, tf.zeros([batch, beams], tf.int32), kept)
    _, texts, total, lengths, _ = tf.while_loop(lambda at, *_: at < length, more, first)
    return texts[:, :, 1:], total / penalty(lengths, alpha)
