"""What lowering decides about sizes becomes a condition, and what holds for all sizes does not."""

from __future__ import annotations

import pytest

from habana_tf.ir import extent as ext
from habana_tf.ir.conditions import NeedsNumber, Premises, hold

S, T = ext.sym(0), ext.sym(1)


def test_what_holds_for_all_sizes_is_no_condition() -> None:
    premises = Premises([7])
    assert premises.at_least(S) and premises.at_least(S, 1) and not premises.at_least(-1, 0)
    assert premises.at_least(ext.add(S, 3), S)
    assert premises.smallest(ext.mul(ext.div(S, 2), 2), ext.add(ext.mul(ext.div(S, 2), 2), 1)) == ext.mul(
        ext.div(S, 2), 2
    )
    assert premises.conditions == ()


def test_an_answer_is_that_for_the_sizes_at_hand_and_a_condition() -> None:
    yes, no = Premises([7]), Premises([2])
    assert yes.at_least(S, 3) and not no.at_least(S, 3)
    for n in range(1, 9):
        assert hold(yes.conditions, [n]) == (n >= 3)
        assert hold(no.conditions, [n]) == (n < 3)


@pytest.mark.parametrize(("dims", "smallest", "largest"), [([7], 3, S), ([2], S, 3), ([3], 3, 3)])
def test_of_equals_the_number_is_taken(dims: list[int], smallest: ext.Extent, largest: ext.Extent) -> None:
    for sizes in ((S, 3), (3, S)):
        assert Premises(dims).smallest(*sizes) == smallest
        assert Premises(dims).largest(*sizes) == largest


def test_equality_is_two_conditions() -> None:
    same, other = Premises([4, 4]), Premises([4, 5])
    assert same.equal(S, T) and not other.equal(S, T)
    assert hold(same.conditions, [9, 9]) and not hold(same.conditions, [9, 8])
    assert hold(other.conditions, [4, 8]) and not hold(other.conditions, [8, 8])


def test_without_sizes_a_question_needs_a_number() -> None:
    with pytest.raises(NeedsNumber, match="whether s0 is at least 3"):
        Premises().at_least(S, 3)
