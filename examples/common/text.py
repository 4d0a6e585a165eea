"""Text without a download: a story of 35 lines, as letters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np


@cache
def story() -> str:
    """The text, 3,536 letters."""
    return Path(__file__).with_name("story.txt").read_text()


class Vocabulary:
    """Numbers for words (here letters), in the order of the alphabet."""

    def __init__(self, words: set[str]) -> None:
        self.words = sorted(words)
        self.numbers = {word: k for k, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: list[str]) -> list[int]:
        """Raises KeyError for a word that is not in it."""
        return [self.numbers[word] for word in words]


def letters() -> tuple[np.ndarray, Vocabulary]:
    """The story as numbers of its letters, int32 [3536], and what they mean."""
    vocabulary = Vocabulary(set(story()))
    return np.array(vocabulary.encode(list(story())), np.int32), vocabulary
