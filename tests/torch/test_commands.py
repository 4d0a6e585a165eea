"""`habana-tf check` and `predict` where PyTorch is installed, with TensorFlow and without."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.child import environment
from tests.torch.child import needs_torch

pytestmark = needs_torch


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "habana_tf.cli", *words], env=environment(**variables), capture_output=True, text=True
    )


def test_check_tries_the_device_of_pytorch() -> None:
    """A setting of the user's that leaves ops to the CPU changes nothing of it."""
    done = run("check", "--json", PT_HPU_PLACE_ON_CPU="mm,tanh", PT_HPU_LAZY_MODE="0")
    said = json.loads(done.stdout)
    mine = {each["name"]: each["status"] for each in said["checks"] if each["fact"].startswith("PyTorch: ")}
    assert mine == {"HPU": "ok", "compiler": "ok", "numbers": "ok"} and said["pytorch_seconds"] > 0
    problems = [each for each in said["checks"] if each["status"] == "problem"]
    assert (done.returncode, problems) == (0, [])


def test_predict_says_what_is_for_a_script_of_pytorch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import habana_frameworks.torch.core\nprint('ran')\n")
    for command in (["predict"], ["plan", "--target", "1 examples/s"]):
        done = run(*command, str(script))
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        said = done.stderr.splitlines()[-1]
        assert "habana_tf.predict(model, *inputs" in said and str(script) in said
        assert ("it is not installed" in said) == (find_spec("tensorflow") is None)
