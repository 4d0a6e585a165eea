"""The examples of ops of one's own learn, and what docs/custom-ops.md shows works as it stands there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from habana_tf.custom.build import build
from tests import forked
from tests.child import environment

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "custom_ops"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def run(program: Path, *arguments: str, **variables: str) -> str:
    done = forked.run([str(program), *arguments], environment(**variables), 300, hpu=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_an_activation_with_its_gradient_learns_digits_in_bf16() -> None:
    printed = run(EXAMPLES / "gated_swish.py", "--epochs", "6", TF_BF16_CONVERSION="full", COLUMNS="200")
    accuracy = re.search(r"Test accuracy: ([\d.]+)%", printed)
    assert accuracy is not None and float(accuracy[1]) > 90, printed
    for op in ("GatedSwish", "GatedSwishGrad"):
        assert re.search(rf"{op} +\d+ +bfloat16", printed), printed


@needs_compiler
def test_a_kernel_in_c_learns_a_ring(tmp_path: Path) -> None:
    build([str(EXAMPLES / "sort_rows.c")], str(tmp_path / "sort_rows.so"))
    printed = run(EXAMPLES / "sort_rows.py", str(tmp_path / "sort_rows.so"), "--steps", "120")
    found = re.search(r"Distance: ([\d.]+) at first, ([\d.]+) at last", printed)
    assert found is not None and float(found[2]) < float(found[1]) / 2, printed


@pytest.mark.parametrize(
    ("source", "precision"),
    [
        pytest.param("", "full", marks=pytest.mark.rest), pytest.param("", "off", marks=pytest.mark.rest),
        pytest.param("deformable.c", "full", marks=[pytest.mark.rest, needs_compiler]),
        pytest.param("deformable.c", "off", marks=[pytest.mark.rest, needs_compiler]),
    ],
)  # fmt: skip
def test_a_deformable_convolution_learns_which_way_up_digits_stand(source: str, precision: str, tmp_path: Path) -> None:
    words, name = [], "DeformableSample"
    if source:
        build([str(EXAMPLES / source)], str(tmp_path / "made.so"))
        words, name = [str(tmp_path / "made.so")], "DeformableSampleC"
    printed = run(EXAMPLES / "deformable.py", *words, TF_BF16_CONVERSION=precision, COLUMNS="200")
    said = re.search(r"Test accuracy: ([\d.]+)%; places moved by ([\d.]+)", printed)
    assert said is not None and float(said[1]) > 85 and float(said[2]) > 0.05, printed
    for op in (name, f"{name}Grad"):
        assert bool(re.search(rf"{op} +\d+ +bfloat16", printed)) == (precision == "full"), printed


@needs_compiler
def test_the_blocks_of_the_document(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "custom-ops.md").read_text()
    lowering, gradient, loading = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (source,) = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "scale.c").write_text(source)
    build([str(tmp_path / "scale.c")], str(tmp_path / "scale.so"))
    program = tmp_path / "program.py"
    program.write_text(
        "import os, tensorflow as tf\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "x = tf.constant([1.0, -2.0])\n"
        + lowering
        + gradient.replace("...", "return dy")
        + "tf.debugging.assert_near(y, x * tf.sigmoid(1.5 * x))\n"
        + loading
        + "tf.debugging.assert_near(y, 3 * x)\nprint('done')\n"
    )
    assert run(program) == "done\n"
