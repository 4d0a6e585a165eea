"""A change waits for the import of its module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from habana_tf.host_changes.after_import import cancel, when_imported


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "waited_for.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "waited_for"
    sys.modules.pop("waited_for", None)


def test_changed_after_its_import(name: str) -> None:
    def change(module: Any) -> None:
        module.answer += 1

    before = list(sys.meta_path)
    when_imported(name, change)
    when_imported(name, change)  # waits already
    assert importlib.import_module(name).answer == 2
    assert sys.meta_path == before
    when_imported(name, change)
    assert sys.modules[name].answer == 3


def test_two_changes_and_somebody_who_only_looks_whether_it_is_there(name: str) -> None:
    seen: list[str] = []
    before = list(sys.meta_path)
    when_imported(name, lambda module: seen.append("first"))
    when_imported(name, lambda module: seen.append("second"))
    assert importlib.util.find_spec(name) is not None and not seen
    importlib.import_module(name)
    assert sorted(seen) == ["first", "second"] and sys.meta_path == before


def test_cancelled(name: str) -> None:
    seen: list[object] = []
    before = list(sys.meta_path)
    change = seen.append
    when_imported(name, change)
    cancel(name, change)
    importlib.import_module(name)
    assert not seen and sys.meta_path == before
