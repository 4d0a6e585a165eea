"""Looking is light: no action but `ir` and `asm` imports TensorFlow or a compiler's libraries, and none needs rich."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.recipes.conftest import Keys

HEAVY = {"tensorflow", "keras", "numpy", "llvmlite", "rich"}


@pytest.mark.parametrize(
    "action",
    ["list --all", "show AddV2", "explain", "diff AddV2 Mul", "stats", "verify", "prune", "path", "doctor",
     "export bundle", "ir --stage cluster LAYER", "report --html page"],
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
