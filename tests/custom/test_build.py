"""`habana-tf build-kernel`: a library of a source, and what is said where none comes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from habana_tf.cli.main import main
from habana_tf.custom import build

SOURCE = Path(__file__).parents[2] / "examples" / "custom_ops" / "sort_rows.c"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
def test_a_source_becomes_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "mine.c"
    shutil.copy(SOURCE, source)
    assert main(["build-kernel", str(source), "--flags=-O1 -DUNUSED=1"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine.so'}: SortRows\n"
    assert {p.name for p in tmp_path.iterdir()} == {"mine.c", "mine.so"}


@needs_compiler
def test_what_the_compiler_says_is_passed_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "wrong.c"
    source.write_text('#include "habana_kernel.h"\nint broken(void) { return undeclared; }\n')
    assert main(["build-kernel", str(source), "-o", str(tmp_path / "wrong.so")]) == 1
    said = capsys.readouterr().err
    assert "wrong.c:2" in said and "undeclared" in said and "-shared" in said
    assert not (tmp_path / "wrong.so").exists()
    source.write_text("int fine = 1;\n")
    assert main(["build-kernel", str(source), "-o", str(tmp_path / "wrong.so")]) == 1
    assert "exports no habana_kernels" in capsys.readouterr().err
    assert main(["build-kernel", str(tmp_path / "none.c")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_the_compiler_is_chosen_by_the_source_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true --quiet")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.command(["a.c"], "a.so", ["-g"])[:3] == ["true", "--quiet", "-std=c11"]
    with pytest.raises(build.BuildError, match=r"no compiler for C\+\+.*CXX"):
        build.command(["a.c", "b.cpp"], "a.so")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(build.BuildError, match="build-essential"):
        build.command(["a.c"], "a.so")
