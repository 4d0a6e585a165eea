"""What a job prints: whole lines with their rank, and one progress bar."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.launcher.console import Console, TerminalLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(pieces: list[tuple[int, str, bytes]], count: int = 2) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    console = Console(count, out, err)
    for rank, stream, data in pieces:
        console.feed(rank, stream, data)
    return out.getvalue(), err.getvalue()


def test_lines_come_whole_with_their_rank() -> None:
    out, err = printed([(0, "out", b"a"), (1, "out", b"x\ny"), (0, "out", b"b\n"), (1, "err", b"e\n"), (1, "out", b"")])
    assert out == "[1] x\n[0] ab\n[1] y\n" and err == "[1] e\n"


def test_progress_is_shown_for_rank_0_only_and_in_its_last_state() -> None:
    bar = b" 1/2\b\b\b\b\b\r 2/2 done\n"
    assert printed([(0, "out", bar), (1, "out", bar), (1, "out", b"plain\r\n")])[0] == "[0]  2/2 done\n[1] plain\n"


def test_a_terminal_sees_progress_move_under_the_lines_of_others() -> None:
    out = Terminal()
    console = Console(12, out, io.StringIO())
    console.feed(0, "out", b"1/3\r2/3")
    console.feed(11, "out", b"hello\n")
    console.feed(0, "out", b"\r3/3\n")
    assert [part for part in out.getvalue().split("\r\x1b[K") if part] == [
        "\x1b[36m[ 0]\x1b[0m 2/3",
        "\x1b[31m[11]\x1b[0m hello\n\x1b[36m[ 0]\x1b[0m 2/3",
        "\x1b[36m[ 0]\x1b[0m 3/3\n",
    ]


def test_files_get_everything_as_it_was_written(tmp_path: Path) -> None:
    console = Console(2, io.StringIO(), io.StringIO(), str(tmp_path / "logs"))
    console.feed(1, "out", b"1/2\r2/2\n\xff")
    console.feed(1, "err", b"oops\n")
    console.close()
    assert (tmp_path / "logs" / "rank_1.log").read_bytes() == b"1/2\r2/2\n\xffoops\n"
    assert (tmp_path / "logs" / "rank_0.log").read_bytes() == b""


def test_a_file_that_cannot_be_written_to_is_given_up_and_named_once(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Console(2, out, err, str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    os.truncate(tmp_path / "rank_0.log", 20)
    os.lseek(console._files[0].fileno(), 20, os.SEEK_SET)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))  # as a full disk, for one of the files
    try:
        for rank in (0, 1, 0, 1):
            console.feed(rank, "out", b"line\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    console.close()
    assert out.getvalue() == "[0] line\n[1] line\n" * 2
    assert (tmp_path / "rank_1.log").read_bytes() == b"line\n" * 2
    assert err.getvalue().count("\n") == 1 and str(tmp_path / "rank_0.log") in err.getvalue()
    assert "File too large" in err.getvalue()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "pipe that is read", "device", "directory", "socket"])
def test_what_is_no_regular_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    """At once: a pipe that nobody reads would make the job wait for ever."""
    path = tmp_path / "rank_1.log"
    with contextlib.ExitStack() as held:
        if kind.startswith("pipe"):
            os.mkfifo(path)
            if "read" in kind:
                held.callback(os.close, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        elif kind == "device":
            path.symlink_to("/dev/null")
        elif kind == "directory":
            path.mkdir()
        else:
            held.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
        with pytest.raises(OSError, match=r"not a regular file|Is a directory") as raised:
            Console(2, io.StringIO(), io.StringIO(), str(tmp_path))
        assert raised.value.filename == str(path)


def test_a_file_of_an_earlier_job_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("much more than the next one writes\n")
    console = Console(1, io.StringIO(), io.StringIO(), str(tmp_path))
    console.feed(0, "out", b"line\n")
    console.close()
    assert (tmp_path / "rank_0.log").read_bytes() == b"line\n"


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc"))), st.data())
def test_text_in_any_pieces(text: str, data: st.DataObject) -> None:
    encoded = (text + "\n").encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)))))
    line, got = TerminalLine(), []
    for begin, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True):
        got += list(line.feed(encoded[begin:end]))
    assert got == [(text.rstrip(), False)]
