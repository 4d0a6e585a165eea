"""Indices of views lead to the right element of their source (NumPy is the oracle)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.compiler.view_indices import reshape_index
from habana_tf.ir import extent as ext


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=0, max_size=4), st.randoms())
def test_reshape_leads_to_the_same_element(shape: list[int], random: Any) -> None:
    left = math.prod(shape)
    source: list[int] = []
    while left > 1:
        source.append(random.choice([d for d in range(2, left + 1) if left % d == 0]))
        left //= source[-1]
    source.insert(random.randint(0, len(source)), 1)
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(shape)]
    index = reshape_index(tuple(ext.of(v) for v in variables), tuple(shape), tuple(source))
    data = np.arange(math.prod(shape)).reshape(source)
    want = data.reshape(shape)
    for point in itertools.product(*map(range, shape)):
        values: dict[Any, ext.Extent] = dict(zip(variables, point, strict=True))
        at = tuple(ext.substitute(e, values) for e in index)
        assert data[at] == want[point]


def test_axes_that_a_reshape_leaves_alone_stay_simple() -> None:
    x = [ext.var(f"x{k}", n) for k, n in enumerate((64, 26, 26, 32))]
    index = reshape_index(tuple(x), (64, 26, 26, 32), (64, 26 * 26, 32))
    assert [str(i) for i in index] == ["x0", "26*x1+x2", "x3"]
