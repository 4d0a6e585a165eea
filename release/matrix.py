"""Tries wheels beside each TensorFlow on each Python, and writes the table of docs/install.md.

    python -m release.matrix dist/*.whl [--minutes 10]

Each pair has an environment of its own, with nothing in it but the wheel, TensorFlow and scikit-learn: the native code
loads, and examples/train_digits.py learns. Oldest first beside newest, so that a run that is cut short says most. What
there was no time for keeps its line of the table from an earlier run.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from release.pythons import pythons

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "install.md"
OLDEST = Path(__file__).with_name("oldest.txt")
TENSORFLOWS = {  # the last of each release, and the Pythons that it has wheels for
    "2.15.1": ("3.10", "3.11"),
    "2.16.2": ("3.10", "3.11", "3.12"),
    "2.17.1": ("3.10", "3.11", "3.12"),
    "2.18.1": ("3.10", "3.11", "3.12"),
    "2.19.1": ("3.10", "3.11", "3.12"),
    "2.20.0": ("3.10", "3.11", "3.12", "3.13"),
    "2.21.0": ("3.10", "3.11", "3.12", "3.13"),
}
Pair = tuple[str, str]
"""TensorFlow, Python."""
HEAD = "| TensorFlow | Python | accuracy | dependencies |\n|---|---|---|---|\n"
LEARNED = 90
"""The least accuracy in percent after four epochs, on digits that the network has not seen."""


def pairs() -> list[Pair]:
    """All pairs, the most telling first: both ends of each, then what is between."""
    every = [(tensorflow, python) for tensorflow, found in TENSORFLOWS.items() for python in found]
    ends = [("2.15.1", "3.10"), ("2.21.0", "3.13"), ("2.15.1", "3.11"), ("2.16.2", "3.12"), ("2.18.1", "3.12"),
            ("2.20.0", "3.13"), ("2.21.0", "3.10")]  # fmt: skip
    return [*ends, *(each for each in every if each not in ends)]


def tried(python: Path, wheel: Path, tensorflow: str, oldest: bool) -> str:
    """A line of the table. Raises SystemExit with what was printed where the wheel does not work.

    oldest: with the oldest dependencies that pyproject.toml allows.
    """
    package = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"  # the smaller one
    hidden = ("PYTHON", "VIRTUAL_ENV", "TF_", "HABANA_", "HLS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, "environment", "bin", "python")
        least = ["-c", OLDEST] if oldest else []
        program = [inside, ROOT / "examples" / "train_digits.py", "--epochs", "4"]
        for command in (
            [python, "-m", "venv", Path(folder, "environment")],
            [inside, "-m", "pip", "install", "-q", *least, wheel, f"{package}=={tensorflow}", "scikit-learn"],
            program,
        ):
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
            if done.returncode:
                raise SystemExit(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-4000:]}")
    found = re.search(r"Test accuracy: ([\d.]+)%", done.stdout)
    if found is None or float(found[1]) < LEARNED:
        raise SystemExit(f"{' '.join(map(str, program))} has not learned:\n{done.stdout[-4000:]}")
    return f"{found[1]} % | {'the oldest that are allowed' if oldest else 'the newest'}"


def table(results: dict[Pair, str]) -> str:
    """The table, by TensorFlow and Python; a pair that was never tried has a dash."""
    every = [(tensorflow, python) for tensorflow, found in TENSORFLOWS.items() for python in found]
    return HEAD + "".join(f"| {t} | {p} | {results.get((t, p), '- | -')} |\n" for t, p in every)


def read(page: str) -> dict[Pair, str]:
    """The results in a page."""
    lines = re.findall(r"^\| (2\.[\d.]+) \| (3\.\d+) \| ([\d.]+ % \| [\w ]+) \|$", page, re.MULTILINE)
    return {(tensorflow, python): result for tensorflow, python, result in lines}


def run(wheels: list[Path], minutes: float) -> int:
    """Tries pairs until the time is up, and writes the page after each."""
    end, found = time.monotonic() + 60 * minutes, pythons()
    for tensorflow, release in pairs() if minutes else ():
        tag = f"-cp{release.replace('.', '')}-"
        wheel = next((each for each in wheels if tag in each.name and platform.machine() in each.name), None)
        if time.monotonic() > end or wheel is None or release not in found:
            continue
        begin, oldest = time.monotonic(), (tensorflow, release) == pairs()[0]
        line = tried(found[release], wheel.resolve(), tensorflow, oldest)
        print(f"TensorFlow {tensorflow}, Python {release}: {line} ({time.monotonic() - begin:.0f} s)", flush=True)
        page = PAGE.read_text()
        found_table = re.search(re.escape(HEAD) + r"(\|.*\n)*", page)
        assert found_table is not None, f"{PAGE} has no table of what was tried"
        PAGE.write_text(page.replace(found_table[0], table(read(page) | {(tensorflow, release): line})))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    sys.exit(run(options.wheels, options.minutes))
