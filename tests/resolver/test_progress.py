"""A long compilation shows itself on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from habana_tf.resolver import progress


class Terminal(io.StringIO):
    """drawn: set once a line was written."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.drawn.set()


def test_a_line_on_a_terminal_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    with pytest.raises(KeyError), progress.shown("cluster_1 (7 ops)"):
        assert terminal.drawn.wait(30)
        raise KeyError
    lines = terminal.getvalue().split("\r")
    assert lines[1] == "habana_tf: compiling cluster_1 (7 ops): 0 s" and lines[-1] == "" and not lines[-2].strip()


def test_what_is_short_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.shown("cluster_1"):
        pass
    assert terminal.getvalue() == ""


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", file := io.StringIO())
    monkeypatch.setattr(progress, "AFTER", 0.0)
    with progress.shown("cluster_1"):
        assert not [t for t in threading.enumerate() if getattr(t, "_target", None) is progress._count]
    assert file.getvalue() == ""


def test_a_closed_stream_stops_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    for stderr in (stream, None):
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress.shown("cluster_1"):
            compiled = True
        assert compiled
