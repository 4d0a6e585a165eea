"""What BERT reads: tales as numbers, two pieces of text in a sequence, some words hidden.

A sequence is `[CLS] a piece [SEP] what follows, or does not [SEP] [PAD] [PAD]`.
"""

from __future__ import annotations

import numpy as np
from common.tales import SENTENCES, Sentence, tale
from common.text import Vocabulary

SPECIAL = ("[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]")
HELD_OUT = 1_000_000  # tales from this number on are never trained with

Pieces = list[list[int]]


class Corpus:
    """So many tales for training, a tenth of that held out, and the words of the former, whole, as the vocabulary."""

    def __init__(self, tales: int) -> None:
        told = [tale((k,)) for k in range(tales)]
        self.vocabulary = Vocabulary({word for each in told for one in each for word in one} | set(SPECIAL))
        self.trained = [self._numbers(each) for each in told]
        self.held_out = [self._numbers(tale((HELD_OUT + k,))) for k in range(max(tales // 10, 100))]
        self.padding = self.vocabulary.numbers["[PAD]"]
        self.can_hide = np.array([word not in SPECIAL for word in self.vocabulary.words])

    def _numbers(self, sentences: list[Sentence]) -> Pieces:
        numbers = self.vocabulary.numbers
        return [[numbers.get(word, numbers["[UNK]"]) for word in each] for each in sentences]

    def joined(self, first: list[int], second: list[int], length: int) -> tuple[np.ndarray, np.ndarray]:
        """Two pieces as a sequence: words and kinds (0, then 1), int32 [length]. The longer one is cut."""
        while len(first) + len(second) > length - 3:
            first, second = (first[:-1], second) if len(first) > len(second) else (first, second[:-1])
        number = self.vocabulary.numbers
        sequence = [number["[CLS]"], *first, number["[SEP]"], *second, number["[SEP]"]]
        words, kinds = np.full(length, self.padding, np.int32), np.zeros(length, np.int32)
        words[: len(sequence)] = sequence
        kinds[len(first) + 2 : len(sequence)] = 1
        return words, kinds

    def _pieces(self, random: np.random.Generator, tales: list[Pieces], length: int) -> tuple[Pieces, int]:
        """A piece and a second one, and 1 where that follows on the first, else 0."""
        room = (length - 3) // 2
        chosen = int(random.integers(len(tales)))
        at = int(random.integers(SENTENCES - 1))
        first = list(tales[chosen][at])
        at += 1
        while at < SENTENCES - 1 and len(first) + len(tales[chosen][at]) <= room:
            first += tales[chosen][at]
            at += 1
        follows = int(random.integers(2))
        if not follows:
            chosen, at = int(random.integers(len(tales))), int(random.integers(SENTENCES))
        second = [word for each in tales[chosen][at:] for word in each]
        return [first, second], follows

    def masked(
        self, random: np.random.Generator, held_out: bool, rows: int, length: int, most: int, part: float
    ) -> tuple[np.ndarray, ...]:
        """Sequences with hidden words.

        most: words that are hidden in a sequence at most. part: of its words that are hidden. Of these, 8 in 10 become
        [MASK], 1 in 10 any word, 1 in 10 stays, as BERT has it. Gives words and kinds, int32 [rows, length]; places
        and the words that were there, int32 [rows, most]; 1 or 0 by whether a place counts, float32 [rows, most];
        whether the second piece follows on the first, int32 [rows].
        """
        tales = self.held_out if held_out else self.trained
        words, kinds = np.zeros((rows, length), np.int32), np.zeros((rows, length), np.int32)
        places, hidden = np.zeros((rows, most), np.int32), np.zeros((rows, most), np.int32)
        counts, follows = np.zeros((rows, most), np.float32), np.zeros(rows, np.int32)
        for row in range(rows):
            pieces, follows[row] = self._pieces(random, tales, length)
            words[row], kinds[row] = self.joined(*pieces, length)
            can = np.flatnonzero(self.can_hide[words[row]])
            there = np.sort(random.permutation(can)[: min(most, max(1, round(len(can) * part)))])
            n = len(there)
            places[row, :n], hidden[row, :n], counts[row, :n] = there, words[row, there], 1
            lot = random.random(n)
            any_word = random.integers(len(self.vocabulary), size=n)
            put = np.where(lot < 0.9, any_word, words[row, there])
            words[row, there] = np.where(lot < 0.8, self.vocabulary.numbers["[MASK]"], put)
        return words, kinds, places, hidden, counts, follows

    def pairs(
        self, random: np.random.Generator, held_out: bool, rows: int, length: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of sentences: words and kinds, int32 [rows, length], and labels, int32 [rows].

        Both are of one tale, with others between them or not. The label is 1 where they are in its order, 0 otherwise.
        """
        tales = self.held_out if held_out else self.trained
        words, kinds = np.zeros((rows, length), np.int32), np.zeros((rows, length), np.int32)
        labels = random.integers(2, size=rows).astype(np.int32)
        for row in range(rows):
            chosen = tales[random.integers(len(tales))]
            two = np.sort(random.permutation(SENTENCES)[:2])
            first, second = two if labels[row] else two[::-1]
            words[row], kinds[row] = self.joined(chosen[first], chosen[second], length)
        return words, kinds, labels
