"""Looking is light: no action but `ir` and `asm` imports TensorFlow or a compiler's libraries, and none needs rich.

Imports are most of the time that a short command takes, so for those that are asked for most often all are listed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.recipes.conftest import Keys

HEAVY = {"tensorflow", "keras", "numpy", "llvmlite", "rich"}


@pytest.mark.parametrize(
    "action",
    ["list --all", "show AddV2", "explain", "diff AddV2 Mul", "stats", "verify", "prune", "path",
     "export bundle", "ir --stage cluster LAYER", "report --quick --html page"],
)  # fmt: skip
def test_what_is_imported(cached: Keys, tmp_path: os.PathLike[str], action: str) -> None:
    arguments = ["recipes", *action.replace("LAYER", cached["64"]).split()]
    code = (
        f"import sys; from habana_tf.cli.main import main; code = main({arguments}); "
        f"print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr); sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


READER = {"entry", "entry_head", "files", "key", "listing", "reader"}
SLOW = {"bz2", "email", "importlib.metadata", "logging", "multiprocessing", "random", "shutil", "socket", "subprocess",
        "tempfile", "unittest", "urllib.parse", "zipfile"}  # fmt: skip
"""Modules of Python that take milliseconds each."""


@pytest.mark.parametrize(
    ("action", "of_the_cache"),
    [
        ("list", READER),
        ("list --json", READER),
        ("path", READER),
        ("stats", READER | {"counters", "history", "journal", "nearest"}),
    ],
)
def test_all_that_is_imported(cached: Keys, action: str, of_the_cache: set[str]) -> None:
    """A name that is new here is to be weighed: `python -X importtime` says what it costs."""
    code = (
        "import sys; before = {*sys.modules}; from habana_tf.cli.main import main; "
        f"code = main({['recipes', *action.split()]}); "
        "print(*sorted(sys.modules.keys() - before), file=sys.stderr); sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    loaded = set(done.stderr.split())
    cache = {m.removeprefix("habana_tf.cache.") for m in loaded if m.startswith("habana_tf.cache.")}
    assert cache == of_the_cache
    own = {m for m in loaded if m.startswith("habana_tf") and not m.startswith("habana_tf.cache.")}
    words = action.split()[0]
    module = {"list": "listing", "path": "upkeep"}.get(words, words)
    assert own == {
        "habana_tf", "habana_tf.aliases", "habana_tf.cache", "habana_tf.files", "habana_tf.files.escaped",
        "habana_tf.files.trust", "habana_tf.reports", "habana_tf.reports.characters", "habana_tf.reports.table",
        "habana_tf.reports.units", "habana_tf.settings", "habana_tf.settings.environment", "habana_tf.settings.machine",
        "habana_tf.settings.program", "habana_tf.version", "habana_tf.cli", "habana_tf.cli.main",
        "habana_tf.cli.lazy_parsers", "habana_tf.cli.output", "habana_tf.cli.recipes", "habana_tf.cli.recipes.common",
        f"habana_tf.cli.recipes.{module}", *(["habana_tf.cli.numbers"] if words == "stats" else []),
    }  # fmt: skip
    slow = SLOW if words == "stats" else SLOW | {"dataclasses", "inspect"}
    assert loaded & slow == set()
