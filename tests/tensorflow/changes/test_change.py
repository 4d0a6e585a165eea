"""What is changed in TensorFlow and Keras: one list, made once, given back whole, and never without a word."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from habana_tf.host_changes.change import Change, ChangeError, Group, install, is_made, undo
from habana_tf.settings import SettingError
from habana_tf.tensorflow import changes
from tests.child import on_hpu, python
from tests.host_changes.targets import missing
from tests.versions import KERAS_3

NAMES = {group.name for group in changes.ALL}


def plus_one(value: int) -> int:
    return value + 1


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "changed.py").write_text("answer = 1\nclass Base:\n    size = 1\nclass Kind(Base):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "changed"
    sys.modules.pop("changed", None)


def test_a_change_waits_for_its_module_is_made_once_and_given_back(module: str) -> None:
    group = Group("answers", "", (Change(module, "answer", plus_one),))
    for _ in range(2):
        install(group)
        imported: Any = importlib.import_module(module)
        install(group)
        assert imported.answer == 2 and is_made(group)
        undo(group)
        undo(group)
        assert imported.answer == 1 and not is_made(group)


def test_one_that_waits_is_given_up(module: str) -> None:
    group = Group("answers", "", (Change(module, "answer", plus_one),))
    before = list(sys.meta_path)
    install(group)
    undo(group)
    assert sys.meta_path == before
    imported: Any = importlib.import_module(module)
    assert imported.answer == 1


def test_what_a_class_inherits_is_its_own_no_longer_than_the_change(module: str) -> None:
    imported: Any = importlib.import_module(module)
    group = Group("sizes", "", (Change(module, "Kind.size", plus_one),))
    install(group)
    assert (imported.Kind.size, imported.Base.size) == (2, 1)
    undo(group)
    assert "size" not in vars(imported.Kind) and imported.Kind.size == 1


@pytest.mark.usefixtures("propagating")
def test_a_target_that_is_not_there(module: str, caplog: pytest.LogCaptureFixture) -> None:
    """A line of the log, or an error that says which numbers depend on it; other changes of the group are undone."""
    changes = Change(module, "answer", plus_one), Change(module, "Kind.weight", plus_one)
    imported: Any = importlib.import_module(module)
    with caplog.at_level(logging.INFO, logger="habana_tf"):
        install(comfort := Group("comfort", "", changes))
    assert "changed.Kind.weight" in caplog.text and imported.answer == 2
    undo(comfort)
    needed = Group("needed", "threads take each other's inputs", changes, numbers=True)
    with pytest.raises(ChangeError, match=r"changed\.Kind\.weight.*each other's inputs.*HABANA_SIM_CHANGES=-needed"):
        install(needed)
    assert imported.answer == 1 and not is_made(needed)
    with pytest.raises(ChangeError, match="not_there"):
        install(Group("needed", "", (Change("not_there", "answer", plus_one),), numbers=True))


def test_every_target_is_there() -> None:
    """In the TensorFlow and the Keras at hand."""
    import tensorflow as tf

    _ = tf.keras.Model  # keras is imported by its first use
    other = "Keras 2" if KERAS_3 else "Keras 3"
    found = missing(group for group in changes.ALL if group.only != other)
    assert not [target for target in found if not target.startswith("tf_keras.")]


def test_names_are_different_and_each_has_a_reason() -> None:
    assert len(NAMES) == len(changes.ALL)
    assert all(group.why for group in changes.ALL)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", NAMES),
        ("on", NAMES),
        ("off", set()),
        ("xla, fork", {"xla", "fork"}),
        ("-xla", NAMES - {"xla"}),
        ("-xla,-fork", NAMES - {"xla", "fork"}),
        ("-xla,torch.profiler", NAMES - {"xla"}),
        ("torch.profiler", NAMES),
    ],
)
def test_some_are_chosen(monkeypatch: pytest.MonkeyPatch, text: str, chosen: set[str]) -> None:
    monkeypatch.setenv("HABANA_SIM_CHANGES", text)
    assert {group.name for group in changes.wanted()} == chosen


@pytest.mark.parametrize("text", ["xlb", "xla,-fork", "-", "on,xla"])
def test_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HABANA_SIM_CHANGES", text)
    with pytest.raises(SettingError, match="info --changes"):
        changes.wanted()


def test_the_page_lists_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tensorflow-changes.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (numbers|users|speed) \| ([^|]+) \|", page, re.MULTILINE)
    assert rows == [(group.name, group.kind, group.only or "TensorFlow") for group in changes.ALL]


@on_hpu
def test_all_are_made_and_given_back() -> None:
    def values() -> list[Any]:
        found = []
        for group in changes.ALL:
            for change in group.changes:
                value: Any = sys.modules.get(change.module)
                for part in change.attribute.split(".") if value is not None else ():
                    value = getattr(value, part, None)
                found.append(value)
        return found

    changed = values()
    changes.undo()
    own = values()
    assert not [value for value in own if "habana" in getattr(value, "__module__", "")]
    assert sum(a is not b for a, b in zip(changed, own, strict=True)) > 15
    changes.install(started=True)
    assert [a is b for a, b in zip(values(), own, strict=True)] == [a is b for a, b in zip(changed, own, strict=True)]


def test_hpu_works_without_any() -> None:
    done = python(
        """
        import habana_tf
        habana_tf.load_habana_module()
        import tensorflow as tf
        print(float(tf.function(lambda x: tf.reduce_sum(x * 2))(tf.ones([3, 4]))), tf.ones([2]).numpy().sum())
        """,
        imported=True,
        HABANA_SIM_CHANGES="off",
    )
    assert done.stdout.split() == ["24.0", "2.0"]
    assert "without eager_kernels eager ops of several threads take each other's inputs" in done.stderr
