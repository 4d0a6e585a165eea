"""BLEU beside numbers worked out by hand."""

from __future__ import annotations

import math
import sys

import pytest

from tests.examples.programs import EXAMPLES

sys.path.append(str(EXAMPLES / "transformer"))
from bleu import bleu


def test_all_and_nothing() -> None:
    text = "the cat is on the mat".split()
    assert bleu([text], [text]) == pytest.approx(100)
    assert bleu([text], ["a dog was under that rug".split()]) == 0


def test_a_word_counts_as_often_as_it_is_there() -> None:
    """Made: 7, 6, 5, 4 runs of 1 to 4 words. There: "the" twice, and "on the mat now" with what is in it."""
    made, wanted = "the the the on the mat now".split(), "the cat sat on the mat now".split()
    by_hand = (5 / 7) * (3 / 6) * (2 / 5) * (1 / 4)  # the (2), on, mat, now; on the, the mat, mat now; ...
    assert bleu([made], [wanted]) == pytest.approx(100 * by_hand**0.25)


def test_short_ones_count_less() -> None:
    """All runs of the four words are right, but six were wanted."""
    score = bleu(["the cat sat on".split()], ["the cat sat on a mat".split()])
    assert score == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_sentences_are_counted_together() -> None:
    """10 of 10 words, 7 of 8 runs of two, 4 of 6 of three, 2 of 4 of four: the second has two halves exchanged."""
    made = ["a b c d e".split(), "i j f g h".split()]
    wanted = ["a b c d e".split(), "f g h i j".split()]
    by_hand = (10 / 10) * (7 / 8) * (4 / 6) * (2 / 4)
    assert bleu(made, wanted) == pytest.approx(100 * by_hand**0.25)
