"""Counts which lines of the user's program end programs, or have the host read a value of the card, for the placement
report.

In lazy mode what is recorded grows until something asks for it: a read by the host, an op on the CPU, `mark_step`. Each
end makes the next program another one, and a read has the host wait until the card is done.
"""

from __future__ import annotations

from habana_tf.resolver import placements
from habana_tf.torch.record import current, scopes


def flush(what: str) -> None:
    """Runs what was recorded, and counts that `what` ended it."""
    with ending(what):
        current.recorder().flush()


class ending:
    """Counts the programs that end within. always: also where none does, as of a read, for which the host waits. Not
    those of a dry run, which runs nothing."""

    def __init__(self, what: str, always: bool = False) -> None:
        self.what, self.always = what, always

    def __enter__(self) -> None:
        recorder = current.recorder()
        self._memory, self._unrun = recorder.memory, recorder.unrun is not None
        self._before = self._memory.reading  # grows by one with each program that has run

    def __exit__(self, *raised: object) -> None:
        programs = self._memory.reading - self._before
        if (self.always or programs) and not self._unrun:
            placements.note_line(self.what, scopes.line(), programs=programs)
