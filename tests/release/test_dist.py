"""Wheels are built for this machine, and for AArch64 where there is a compiler for it."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from release import dist

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="on AArch64 nothing is built for another machine")


@x86_64
def test_without_a_cross_compiler_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert dist.architectures() == ["x86_64"]
    assert "no wheels for AArch64: aarch64-linux-gnu-g++ is not installed" in capsys.readouterr().out
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert dist.architectures() == ["x86_64", "aarch64"] and capsys.readouterr().out == ""


@x86_64
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_only_the_build_is_told_of_another_architecture(
    architecture: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pip would take tools for that architecture into the environment of the build, and CMake could not run them."""
    told: list[tuple[list[str], dict[str, str]]] = []

    def run(*command: object, cwd: Path = tmp_path, **variables: str) -> None:
        words = [str(each) for each in command]
        told.append((words, variables))
        folder = Path(words[words.index("-w") + 1])
        folder.mkdir(exist_ok=True)
        Path(folder, "x.whl").write_bytes(b"")

    monkeypatch.setattr(dist, "run", run)
    made = dist.wheel(Path("x.tar.gz"), Path("python3.11"), "3.11", architecture, tmp_path)
    assert made == tmp_path / "x.whl" and made.exists()
    (pip, variables), (auditwheel, none) = told
    assert "_PYTHON_HOST_PLATFORM" not in variables and not none and "auditwheel" in auditwheel
    assert ("env._PYTHON_HOST_PLATFORM=linux-aarch64" in pip) == (architecture == "aarch64")
    if architecture == "aarch64":
        assert variables["SETUPTOOLS_EXT_SUFFIX"] == ".cpython-311-aarch64-linux-gnu.so"
        assert "aarch64-linux-gnu-g++" in Path(variables["CMAKE_TOOLCHAIN_FILE"]).read_text()
    else:
        assert not variables
