"""What an agent reads of what its rank has noted: a line of text in a file of the rank's own, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.launcher import agent


def _link(note: Path, secret: Path) -> None:
    note.symlink_to(secret)


def _hard_link(note: Path, secret: Path) -> None:
    os.link(secret, note)


def _pipe(note: Path, secret: Path) -> None:
    os.mkfifo(note)


def _directory(note: Path, secret: Path) -> None:
    note.mkdir()


def _long(note: Path, secret: Path) -> None:
    note.write_text("x" * 5000)


def _sparse(note: Path, secret: Path) -> None:
    note.touch()
    os.truncate(note, 1 << 40)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "make, why",
    [
        (_link, "symbolic links"),
        (_hard_link, "not a file of its own"),
        (_pipe, "not a file of its own"),
        (_directory, "not a file of its own"),
        (_long, "it has 5000 bytes"),
        (_sparse, "it has 1099511627776 bytes"),
    ],
)
def test_what_is_no_note_is_not_read(
    make: Callable[[Path, Path], None], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    make(tmp_path / "checkpoint", secret)
    assert agent.noted(os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)) == ""
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1 and "s3cret" not in said


def test_a_note_is_a_line_of_printable_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    assert agent.noted(folder) == ""
    (tmp_path / "checkpoint").write_bytes("  größe/ckpt-1\x1b[31m\nrank 0 ended\r\u202e\n".encode() + b"\xff\0")
    assert agent.noted(folder) == r"größe/ckpt-1\x1b[31m\nrank 0 ended\r\u202e\n\ufffd\x00".replace(r"\ufffd", "\ufffd")
    assert capsys.readouterr().err == ""
