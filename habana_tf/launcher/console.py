"""Prints what the ranks print, on one screen and into one file each.

Every line is printed whole, with the rank in front, on the launcher's standard output or error, as it was. A line that
overwrites itself (a progress bar) is shown for rank 0 only: on a terminal as it moves, otherwise in its last state. The
files get everything as it was written.

Invariants: nothing here ends a job, and only regular files are opened. An output that cannot be written to any more (a
pipe whose reader has ended, a closed terminal, a full disk) is given up after one line on standard error; the others
continue.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import IO

from habana_tf.files import trust
from habana_tf.files.escaped import escaped

_CLEAR = "\r\x1b[K"
_COLOURS = (36, 33, 35, 32, 34, 31)


class TerminalLine:
    """A line as a terminal would show it: carriage returns and backspaces move back, text overwrites."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cells: list[str] = []
        self._cursor = 0
        self.redrawn = False

    def feed(self, data: bytes, final: bool = False) -> Iterator[tuple[str, bool]]:
        """Yields every line that `data` completes, and whether it was drawn over itself."""
        for character in self._decoder.decode(data, final):
            if character == "\n":
                yield self.shown(), self.redrawn
                self._cells, self._cursor, self.redrawn = [], 0, False
            elif character == "\r":
                self._cursor = 0
            elif character == "\b":
                self._cursor = max(self._cursor - 1, 0)
            else:
                if self._cursor < len(self._cells):
                    self.redrawn = True
                self._cells[self._cursor : self._cursor + 1] = character
                self._cursor += 1
        if final and self._cells:
            yield self.shown(), self.redrawn

    def shown(self) -> str:
        return "".join(self._cells).rstrip()


class Console:
    """Prints the output of `count` ranks to `out` and `err`, the launcher's own."""

    def __init__(self, count: int, out: IO[str], err: IO[str], log_dir: str | None = None) -> None:
        self._streams = {"out": out, "err": err}
        self._tty = out.isatty()
        self._digits = len(str(count - 1))
        self._lines: dict[tuple[int, str], TerminalLine] = {}
        self._progress = ""
        self._files: dict[int, IO[bytes]] = {}
        self._names: dict[int, str] = {}
        if log_dir is not None:
            os.makedirs(log_dir, exist_ok=True)
            for rank in range(count):
                name = self._names[rank] = os.path.join(log_dir, f"rank_{rank}.log")
                self._files[rank] = os.fdopen(trust.replaced(name), "wb", buffering=0)

    def feed(self, rank: int, stream: str, data: bytes) -> None:
        """Takes what a rank wrote to `stream` ("out" or "err"); empty data is its end."""
        self._log(rank, data)
        line = self._lines.setdefault((rank, stream), TerminalLine())
        for text, redrawn in line.feed(data, final=not data):
            if rank == 0 or not redrawn:
                if rank == 0:
                    self._progress = ""
                self._print(self._prefix(rank) + text, stream)
        if rank == 0 and self._tty and line.redrawn:
            self._progress = self._prefix(0) + line.shown()[: shutil.get_terminal_size().columns - self._digits - 4]
            self._write("out", _CLEAR + self._progress)

    def say(self, text: str) -> None:
        """A line of the launcher's own."""
        self._print(f"habana-tf run: {text}", "err")

    def close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()

    def _log(self, rank: int, data: bytes) -> None:
        file = self._files.get(rank)
        if file is None:
            return
        try:
            while data:  # a disk that fills up takes a part
                data = data[file.write(data) :]
        except OSError as error:
            del self._files[rank]
            with contextlib.suppress(OSError):
                file.close()
            self.say(f"{escaped(self._names[rank])} cannot be written to any more ({error.strerror}); the job goes on")

    def _print(self, text: str, stream: str) -> None:
        if self._tty:  # over the progress, which is drawn again below
            text = _CLEAR + text
        self._write(stream, text + "\n")
        if self._progress:
            self._write("out", self._progress)

    def _write(self, stream: str, text: str) -> None:
        try:
            self._streams[stream].write(text)
            self._streams[stream].flush()
        except OSError as error:
            lost, nothing = self._streams[stream], open(os.devnull, "w")  # noqa: SIM115  # to the end
            self._streams[stream] = nothing
            with contextlib.suppress(OSError):  # Python flushes at exit what it could not write here
                os.dup2(nothing.fileno(), lost.fileno())
            if stream == "out":
                self.say(f"standard output cannot be written to any more ({error.strerror}); the job goes on")

    def _prefix(self, rank: int) -> str:
        label = f"[{rank:>{self._digits}}]"
        return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{label}\x1b[0m " if self._tty else f"{label} "
