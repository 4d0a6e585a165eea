"""Numbers carry units, tensors read as types, tables lose nothing."""

from __future__ import annotations

import os

import pytest

from habana_tf.cli.output import print_table, tensor
from habana_tf.reports.table import Styled


@pytest.mark.parametrize(
    ("described", "text"),
    [
        ({"dtype": "float32", "shape": [2, 3]}, "float32[2,3]"),
        ({"dtype": "bool", "shape": []}, "bool[]"),
        ({"dtype": "int64", "shape": ["batch", 4]}, "int64[batch,4]"),
        ({"dtype": "int64"}, "int64[?]"),
        ("text", "text"),
    ],
)
def test_tensors(described: object, text: str) -> None:
    assert tensor(described) == text


def test_tables_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", ">b"], [["[bold]x[/]", "1"], ["y" * 300, "22"]])
    out = capsys.readouterr().out
    assert "[bold]x[/]" in out
    assert out.count("y") == 300
    print_table(["", ""], [["k", "v"]])
    assert len(capsys.readouterr().out.splitlines()) == 1
    print_table(["a", "b"], [["x", ""]])
    assert "x" in capsys.readouterr().out


def test_columns_line_up_and_wrap(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", ">number", "text"], [["x", "1", "words " * 60], ["long name", "22", "end"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 200
    assert len({line.index(word) for line in lines for word in ("text", "words", "end") if word in line}) == 1
    assert (
        len({line.index(word) + len(word) for line in lines for word in ("number", " 1 ", "22 ") if word in line}) <= 2
    )
    assert sum(line.count("words") for line in lines) == 60


def test_what_steers_a_terminal_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a"], [["\x1b]0;title\x07 \u009b31m"]])
    assert "\x1b" not in (out := capsys.readouterr().out) and "\x07" not in out and "\x9b" not in out


@pytest.mark.parametrize(
    ("variable", "value", "colours"), [("A", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)]
)
def test_colours_are_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str, colours: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    print_table(["a"], [[Styled("red", "red")]])
    assert "\x1b" not in capsys.readouterr().out, "this is no terminal"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: os.terminal_size((40, 20)))
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1)
    print_table(["a"], [[Styled("red", "red")]])
    assert ("\x1b[31mred\x1b[0m" in capsys.readouterr().out) == colours
