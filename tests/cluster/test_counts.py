"""The number that ids come to, and ids that an op refuses."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.cluster import counts


@pytest.mark.parametrize("ids", [[0, 1, 1, 4], [0, 0, 0], [3], [2, 1], [-1, 0], [0, 2**31]])
def test_ids_are_counted_as_the_op_does(ids: list[int]) -> None:
    found = counts.segments([np.array(ids, np.int64)])
    if min(ids) < 0 or ids != sorted(ids):
        assert found == (counts.UNORDERED if ids != sorted(ids) else counts.NEGATIVE)
    else:
        assert found == ids[-1] + 1
    assert counts.places([np.array(ids, np.int64), np.zeros([0], np.int64)]) == (-1 if min(ids) < 0 else max(ids) + 1)


def test_no_ids_are_no_segments() -> None:
    assert counts.segments([np.zeros([0], np.int32)]) == counts.places([]) == 0
