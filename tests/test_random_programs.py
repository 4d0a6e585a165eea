"""Control flow as nobody would write it: whatever the program, HPU computes what stock TensorFlow computes.

A minute of it in `make test-all`, a fifth of that in `make test`; a run of thousands is
`python -m tests.random_programs --count 5000`.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.child import on_hpu
from tests.drawn_programs import Draw
from tests.effort import THOROUGH
from tests.random_programs import compare


@pytest.mark.part
@on_hpu
def test_computes_the_same() -> None:
    @given(st.randoms(use_true_random=False))
    @settings(
        max_examples=60 if THOROUGH else 12, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    def check(rng: random.Random) -> None:
        compare(Draw(rng))

    check()
