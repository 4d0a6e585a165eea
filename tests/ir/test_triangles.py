"""Which matrices of truths are triangles."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.ir.triangles import first_row


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 8), (8, 3), (1, 1, 4, 6)], ids=str)
@pytest.mark.parametrize("below", [-2, 0, 1])
def test_numpys_triangles_are_told_by_their_first_row(shape: tuple[int, ...], below: int) -> None:
    value = np.tri(*shape[-2:], below, dtype=bool).reshape(shape)
    found = first_row(value)
    if below < 0:  # several rows without any: no row has one more than the one before
        assert found is None or shape[-2] == 1
    elif shape[-1] > below:
        assert found == below + 1


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (5,), (2, 4, 4)], ids=str)
def test_what_is_no_matrix_is_no_triangle(shape: tuple[int, ...]) -> None:
    assert first_row(np.ones(shape, bool)) is None


@pytest.mark.parametrize("at", [(0, 0), (2, 3), (4, 4)])
def test_one_other_truth_makes_it_none(at: tuple[int, int]) -> None:
    value = np.tri(5, dtype=bool)
    value[at] = not value[at]
    assert first_row(value) is None
