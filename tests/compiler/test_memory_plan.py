"""The memory plan: nothing alive at the same time overlaps, and memory is used again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from habana_tf.compiler.memory_plan import ALIGNMENT, Lifetime, place

LIFETIMES = st.lists(
    st.builds(lambda n, a, d: Lifetime(n, a, a + d), st.integers(0, 5000), st.integers(0, 20), st.integers(0, 8)),
    max_size=40,
)


@given(LIFETIMES)
def test_values_alive_together_do_not_overlap(values: list[Lifetime]) -> None:
    placed = place(values)
    for i, a in enumerate(values):
        assert placed.offsets[i] % ALIGNMENT == 0
        assert placed.offsets[i] + a.nbytes <= placed.total
        for j, b in enumerate(values[:i]):
            if a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes:
                x, y = placed.offsets[i], placed.offsets[j]
                assert x + a.nbytes <= y or y + b.nbytes <= x


@given(LIFETIMES)
def test_the_peak_is_what_is_alive_at_the_worst_call(values: list[Lifetime]) -> None:
    def rounded(n: int) -> int:
        return -(-n // ALIGNMENT) * ALIGNMENT

    worst = max((sum(rounded(v.nbytes) for v in values if v.first <= t <= v.last) for t in range(30)), default=0)
    placed = place(values)
    assert placed.peak == worst <= placed.total


def test_a_chain_needs_two_buffers() -> None:
    chain = [Lifetime(1024, k, k + 1) for k in range(50)]
    assert place(chain).total == 2 * 1024


def test_a_buffer_at_the_end_grows_instead_of_being_wasted() -> None:
    assert place([Lifetime(64, 0, 0), Lifetime(640, 1, 1)]).total == 640
