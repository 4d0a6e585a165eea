"""What to do about shapes that change; how many recipes are left is what counting by hand gives."""

from __future__ import annotations

import numpy as np

from habana_tf.cluster.signature import Signature
from habana_tf.resolver.remedies import remedies


def batches(*sizes: int) -> list[Signature]:
    return [Signature.of([(n, 28), (n,)], [None, None]) for n in sizes]


NAMES, FED = ["image", "label"], [True, True]


def test_the_last_partial_batch() -> None:
    (line,) = remedies(batches(64, 44), NAMES, FED)
    assert line == (
        "image, label axis 0, of size 44, 64: drop the remainder (batch(..., drop_remainder=True)), or pad it to 64: "
        "a real card compiles 1 instead of 2"
    )


def test_lengths_are_padded_or_sorted_into_buckets() -> None:
    met = [Signature.of([(8, n)], [None]) for n in (9, 12, 17, 30, 31)]
    (line,) = remedies(met, ["words"], [True])
    assert line == (
        "words axis 1, of size 9, 12, 17, 30, 31: pad it to 31, or to 2 buckets (16, 32): "
        "a real card compiles 1 instead of 5"
    )


def test_two_causes_have_a_line_each_and_one_for_both() -> None:
    met = [Signature.of([(b, n)], [None]) for b, n in ((8, 5), (8, 6), (4, 5), (4, 6))]
    lines = remedies(met, ["words"], [True])
    assert len(lines) == 3 and lines[0].endswith("2 instead of 4") and lines[1].endswith("2 instead of 4")
    assert lines[2] == "all of these: a real card compiles 1 instead of 4"


def test_a_result_of_an_op_is_not_the_program_s_to_pad() -> None:
    met = [Signature.of([(n,)], [None]) for n in (41, 44)]
    (line,) = remedies(met, ["SGD/Unique"], [False])
    assert "depends on data" in line and "pad" not in line


def test_values_ranks_and_nothing() -> None:
    values = [Signature.of([(2,)], [np.array([n, 3])]) for n in (4, 5)]
    (line,) = remedies(values, ["shape"], [True])
    assert line == "shape: the same value in every call: a real card compiles 1 instead of 2"
    ranks = [Signature.of([(3,)], [None]), Signature.of([(3, 1)], [None])]
    assert remedies(ranks, ["label"], [True]) == ["inputs of one rank in every call: each rank is a recipe"]
    assert remedies(batches(64), NAMES, FED) == [] == remedies([], NAMES, FED)
