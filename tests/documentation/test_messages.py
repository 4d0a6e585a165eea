"""Every error and warning that a user may meet has an entry in docs/troubleshooting.md, and each entry a message."""

from __future__ import annotations

import re

import pytest

from tests.documentation import messages
from tests.documentation.messages import ANY, Entry, Message

pytestmark = pytest.mark.skipif(not messages.PAGE.exists(), reason="not in a source tree")
WIDE = {"CommandError", "CustomOpError", "LoweringError", "ValueError"}
"""Classes with more than fifteen messages, which say themselves what to do: one line of an entry covers the class."""


@pytest.fixture(scope="module")
def found() -> list[Message]:
    return messages.collect()


def test_every_message_has_an_entry(found: list[Message]) -> None:
    entries = messages.entries()
    missing = [f"{m} ({m.file}:{m.line})" for m in found if not any(each.explains(m) for each in entries)]
    assert not missing, f"docs/troubleshooting.md has no entry for {len(missing)}:\n" + "\n".join(missing)


def test_every_line_of_an_entry_has_a_message_and_every_entry_a_remedy(found: list[Message]) -> None:
    text = messages.PAGE.read_text()
    for entry in messages.entries():
        for pattern in entry.patterns:
            assert any(messages.matches(pattern, m) for m in found), (
                f"{entry.title}: no message is {pattern!r} any more"
            )
        body = text.split(f"### {entry.title}\n")[1].split("\n### ")[0]
        assert "**Cause:**" in body and "**Remedy:**" in body, entry.title


def test_a_line_that_covers_a_class_is_of_one_whose_messages_are_of_a_kind(found: list[Message]) -> None:
    """`CardError: …` is an entry for what a class means; a class that means much has lines of its own."""
    for entry in messages.entries():
        for pattern in entry.patterns:
            if pattern.endswith(f": {ANY}") and re.fullmatch(rf"\w+: {ANY}", pattern):
                kind = pattern.split(":")[0]
                number = len({m.text for m in found if m.kind == kind})
                assert number <= 15 or kind in WIDE, f"{entry.title}: {number} messages of {kind} under one line"


def test_exceptions_that_are_left_out_exist_and_are_not_explained() -> None:
    sources = "\n".join(path.read_text() for path in messages.python_files())
    defined = set(re.findall(r"^class (\w+)", sources, re.MULTILINE))
    assert {*messages.TAKEN_IN} - defined == {"ArgumentTypeError"}  # Python's
    lines = [pattern for entry in messages.entries() for pattern in entry.patterns]
    assert not [line for line in lines if line.split(":")[0] in messages.TAKEN_IN]


def test_it_finds_what_a_new_message_is_raised_by() -> None:
    """A planted message of each kind is found: raised, raised through a function, logged."""
    source = (
        "def _refused(why: str) -> CardError:\n    return CardError(why)\n"
        "def f(x):\n    raise LoadError(f'no {x} here' + ' at all')\n"
        "def g(x):\n    raise _refused('held by %s' % x)\n"
        "def h(x):\n    _log.warning('%d of %s are gone', x, x)\n"
    )
    file = messages.ROOT / "habana_tf" / "planted.py"
    made = [str(m) for m in messages.of_source(source, file)]
    assert sorted(made) == [
        f"CardError: held by {ANY}", f"LoadError: no {ANY} here at all", f"habana_tf: {ANY} of {ANY} are gone"
    ]  # fmt: skip


def test_a_pattern_is_matched_as_a_whole() -> None:
    entry = Entry("t", "t", (f"CardError: local rank {ANY} has no card{ANY}",))
    assert entry.explains(Message("CardError", f"local rank {ANY} ({ANY}) has no card: it may", "f", 1))
    assert not entry.explains(Message("CardError", f"the card {ANY} has no card", "f", 1))
    assert not entry.explains(Message("LoadError", f"local rank {ANY} has no card", "f", 1))
