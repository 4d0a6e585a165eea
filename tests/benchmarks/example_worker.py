"""Runs an example program in this process and notes its steps.

    python example_worker.py result.json examples/vit/train.py --log_every 1 --num_steps 40

The program is not changed: it prints a line for each step, and each line is noted with the time and with what native
code has launched so far. After the program's end `result.json` has the times, the launches per step, the recipes that
were compiled and written, and the ops that ran on the CPU.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
import time
from pathlib import Path
from typing import Any

STEP = re.compile(r"step \d+/\d+, loss ")
FIRST = re.compile(r"first step ([\d.]+) s")


class Notes(io.TextIOWrapper):
    """Standard output that notes when steps end. What the noting itself takes counts for no step."""

    def __init__(self) -> None:
        super().__init__(sys.stdout.buffer, encoding="utf-8", write_through=True)
        self._began, self._worked = time.perf_counter(), time.process_time()
        self.processor: list[float] = []
        """Seconds of processor time of each step, of all threads."""
        self.seconds: list[float] = []
        """Of each step; the first one with all that was before it in the process."""
        self.first: float | None = None
        """Seconds of the first step alone, as the program says."""
        self.launches: list[int] = []
        """Since the start of the process, at the end of each step."""

    def write(self, text: str) -> int:
        if not STEP.match(text):
            return super().write(text)
        self.seconds.append(time.perf_counter() - self._began)
        self.processor.append(time.process_time() - self._worked)
        self.launches.append(launches())
        if said := FIRST.search(text):
            self.first = float(said[1])
        written = super().write(text)
        self._began, self._worked = time.perf_counter(), time.process_time()
        return written


def on_hpu() -> bool:
    """Whether the program has loaded HPU; stock TensorFlow must not be given habana_tf by asking."""
    return "habana_tf" in sys.modules and bool(sys.modules["habana_tf"].is_loaded())


def launches() -> int:
    if not on_hpu():
        return 0
    from habana_tf.card.clock import counted

    return counted.now().launches


def counts() -> dict[str, Any]:
    """Recipes compiled and written to the cache, and the ops on the CPU with how many there were of them in graphs."""
    if not on_hpu():
        return {}
    import habana_tf
    from habana_tf import cache

    recipes, placed = cache.stats().counts(), habana_tf.placement_report().to_dict()
    cpu = {row["op"]: row["count"] for row in placed["refused"] if row["device"] == "CPU"}
    return {"compiled": recipes.compiled, "written": recipes.stored, "cpu": cpu,
            "cpu_eager": [row["op"] for row in placed["eager"]]}  # fmt: skip


def main() -> None:
    result, program = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(program).parent)
    notes = Notes()
    with contextlib.redirect_stdout(notes):
        runpy.run_path(program, run_name="__main__")
    noted = {"first": notes.first, "seconds": notes.seconds, "processor": notes.processor, "launches": notes.launches}
    result.write_text(json.dumps({**noted, **counts()}))


if __name__ == "__main__":
    main()
