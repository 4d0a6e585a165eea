"""A package is built whole, wherever it is built: with the plugin, and without TensorFlow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("habana_tf/_native/libhabana_plugin.so", "habana_tf/_native/libhabana_runtime.so", "habana_tf_horovod.pth",
         "_habana_tf_horovod.py", "habana_tf/py.typed", "habana_frameworks/tensorflow/__init__.py")  # fmt: skip

pytestmark = pytest.mark.skipif(not (ROOT / "CMakeLists.txt").exists(), reason="not in a source tree")


def test_a_build_needs_no_tensorflow() -> None:
    needed = (ROOT / "pyproject.toml").read_text().split("build-backend")[0]
    assert "nanobind" in needed and "tensorflow-cpu" not in needed
    assert "include/tensorflow" not in (ROOT / "CMakeLists.txt").read_text()
    for source in (ROOT / "kernels").rglob("*.[ch]*"):
        assert '#include "tensorflow/' not in source.read_text(), source


@pytest.mark.rest
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "not isolated"])
def test_installs_into_an_environment_with_nothing_in_it(isolated: bool, tmp_path: Path) -> None:
    """`pip install` of the source distribution as on a fresh machine, where a build sees no package but its own.

    Isolated, pip makes an environment for the build; not isolated, the environment has what pyproject.toml lists.
    TensorFlow comes afterwards, and HPU must run.
    """
    python, environment = empty_environment(tmp_path / "environment")
    source = source_distribution(tmp_path / "source")
    before = [] if isolated else [*build_requirements(), "cmake>=3.20,<4", "ninja"]
    build = [*([] if isolated else ["--no-build-isolation"]), str(source)]
    tensorflow = "tensorflow-cpu==2.15.1" if sys.version_info < (3, 12) else "tensorflow-cpu==2.21.0"
    for arguments in filter(None, (before, build, [tensorflow])):
        done = subprocess.run([python, "-m", "pip", "install", "-q", *arguments], env=environment, cwd=tmp_path,
                              capture_output=True, text=True, timeout=2000)  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
    (site,) = (tmp_path / "environment").glob("lib/python3*/site-packages")
    assert [name for name in WHOLE if not (site / name).exists()] == []
    done = subprocess.run([python, "-c", RUNS], env=environment, cwd=tmp_path, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    commands = [site.parents[2] / "bin" / name for name in ("habana-tf", "hl-smi")]
    for command in commands:
        subprocess.run([command, "--help"], env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=300)


RUNS = """
import tensorflow as tf
import habana_tf
habana_tf.load_habana_module()
with tf.device("/HPU:0"):
    total = tf.ones([8]) + tf.fill([8], 2.0)
assert total.numpy().tolist() == [3.0] * 8 and "HPU" in total.device, total
assert habana_tf.recompilation_report().one_op["AddV2"]
"""


def empty_environment(folder: Path) -> tuple[Path, dict[str, str]]:
    """The Python of a new virtual environment, and variables under which nothing else is seen from there.

    Of pip's settings those are left that say where packages come from.
    """
    sources = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CERT", "PIP_TRUSTED_HOST",
               "PIP_PROXY", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES"}  # fmt: skip
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in sources
        or not name.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV", "TF_", "HABANA_", "SKBUILD", "CMAKE"))
    }
    ours = str(Path(sys.prefix, "bin"))
    environment["PATH"] = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != ours)
    environment |= {"PYTHONNOUSERSITE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, env=environment, timeout=300)
    python = folder / "bin" / "python"
    seen = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], env=environment, check=True,
                          capture_output=True, text=True, timeout=300).stdout.split()  # fmt: skip
    assert {each.partition("==")[0] for each in seen} <= {"pip", "setuptools"}, f"not empty: {seen}"
    return python, environment


def source_distribution(folder: Path) -> Path:
    """The .tar.gz of these sources."""
    make = f"""
import os
os.chdir({str(ROOT)!r})
from scikit_build_core.build import build_sdist
print(build_sdist({str(folder)!r}))
"""
    folder.mkdir()
    subprocess.run([sys.executable, "-c", make], check=True, timeout=600)
    (source,) = folder.glob("*.tar.gz")
    return source


def build_requirements() -> list[str]:
    """What pyproject.toml lists for a build by this Python."""
    from packaging.requirements import Requirement

    text = (ROOT / "pyproject.toml").read_text().partition("requires = [")[2].partition("]\n")[0]
    listed = [Requirement(each) for each in re.findall(r'^  "([^"]+)"', text, re.MULTILINE)]
    return [f"{each.name}{each.specifier}" for each in listed if each.marker is None or each.marker.evaluate()]
