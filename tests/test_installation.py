"""Tests find the installed package from wherever they are started, and refuse one that is not that of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import habana_tf
from tests import installation
from tests.child import environment
from tests.installation import ROOT, out_of_date

PACKAGE = Path(habana_tf.__file__).parent

IN_A_CHILD = """
from tests.child import python

def test_a_child_imports_what_its_test_imports():
    import habana_tf
    said = python("import habana_tf; print(habana_tf.__file__)").stdout
    assert said.strip() == habana_tf.__file__
    python("from habana_tf._native import _bridge")
"""


@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="not in a source tree")
@pytest.mark.parametrize("words", [["-m", "pytest"], [str(Path(sys.executable).with_name("pytest"))]])
@pytest.mark.parametrize("folder", [".", "tests/cli"])
def test_pytest_is_started_anywhere(words: list[str], folder: str) -> None:
    # A file beside the tests, as it is their conftest that is tested.
    path = ROOT / "tests" / f"test_started_{os.getpid()}.py"
    path.write_text(IN_A_CHILD)
    env = environment()
    del env["PYTHONPATH"]
    command = [sys.executable, *words, os.path.relpath(path, ROOT / folder), "-k", "imports", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(command, cwd=ROOT / folder, env=env, capture_output=True, text=True, timeout=300)
    finally:
        path.unlink()
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


STARTUP = "habana_tf/horovod/startup/_start.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree and an environment in `env` that has a copy of its package."""
    for name in (
        "habana_tf/loader.py",
        STARTUP,
        "habana_frameworks/tensorflow/__init__.py",
    ):
        for path in (tmp_path / name, tmp_path / "env" / name.replace("habana_tf/horovod/startup/", "")):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1\n")
    (tmp_path / "habana_tf/horovod/startup/__init__.py").write_text("")  # not installed
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "card.cc").write_text("")
    spec = type("Spec", (), {"origin": str(tmp_path / "env/habana_tf/__init__.py")})
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: spec)
    return tmp_path


def test_a_copy_of_the_sources_has_to_be_as_they_are(root: Path) -> None:
    assert out_of_date(root, root / "env") is None
    for name in (
        "habana_tf/loader.py",
        "habana_frameworks/tensorflow/__init__.py",
        STARTUP,
    ):
        (root / name).write_text("x = 2\n")
        said = out_of_date(root, root / "env")
        assert said is not None and Path(name).name in said and "make dev" in said
        (root / name).write_text("x = 1\n")
    (root / "habana_tf/new.py").write_text("")
    assert "habana_tf/new.py" in (out_of_date(root, root / "env") or "")


@pytest.mark.parametrize("stamp, target", [(".dev", "make dev"), (".installed", "make test")])
def test_native_code_is_not_older_than_its_sources(root: Path, stamp: str, target: str) -> None:
    (root / "env" / stamp).write_text("")
    os.utime(root / "kernels/card.cc", (1e9, 1e9))
    assert out_of_date(root, root / "env") is None
    os.utime(root / "kernels/card.cc", (4e9, 4e9))
    said = out_of_date(root, root / "env")
    assert said is not None and "kernels/card.cc" in said and target in said


def test_what_follows_the_sources_is_as_they_are(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(root / "env/habana_tf")
    spec = type("Spec", (), {"origin": str(root / "habana_tf/__init__.py")})
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: spec)
    assert out_of_date(root, root / "env") is None


def test_nothing_is_installed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    assert "make dev" in (out_of_date(root, root / "env") or "")
