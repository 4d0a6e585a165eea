"""Numbers carry units, tensors read as types, tables lose nothing."""

from __future__ import annotations

import pytest

from habana_tf.cli.output import duration, print_table, size, tensor


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (96 << 30, "96.0 GiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0 ms"), (0.0214, "21 ms"), (1.26, "1.3 s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


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
