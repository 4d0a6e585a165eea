"""A package is built whole or not at all: without TensorFlow's headers there is no plugin, and without it no HPU."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("habana_tf/_native/libhabana_plugin.so", "habana_tf/_native/libhabana_runtime.so", "habana_tf_horovod.pth",
         "_habana_tf_horovod.py", "habana_tf/py.typed", "habana_frameworks/tensorflow/__init__.py",
         "habana_tf/resolver/recipes.zip")  # fmt: skip

pytestmark = pytest.mark.skipif(not (ROOT / "CMakeLists.txt").exists(), reason="not in a source tree")


def test_no_package_without_tensorflow(tmp_path: Path) -> None:
    """As scikit-build-core configures it, where no TensorFlow is found."""
    pytest.importorskip("nanobind", reason="nanobind, which builds the bridge, is not in this environment: make dev")
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("no cmake in this environment")
    options = ["-DSKBUILD=2", "-DTENSORFLOW_ROOT=", f"-DPython_EXECUTABLE={sys.executable}", "-G", "Ninja",
               f"-DCMAKE_MAKE_PROGRAM={cmake.with_name('ninja')}"]  # fmt: skip
    command = [str(cmake), "-S", str(ROOT), "-B", str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    said = " ".join(done.stderr.split())
    assert done.returncode, "configured all the same"
    assert "TensorFlow's headers were not found" in said and "--no-build-isolation --no-deps ." in said


def test_an_environment_of_pips_own_has_tensorflow() -> None:
    needed = (ROOT / "pyproject.toml").read_text().split("build-backend")[0]
    assert "tensorflow-cpu==2.15.1; python_version < '3.12'" in needed
    assert "tensorflow-cpu==2.21.0; python_version >= '3.12'" in needed


@pytest.mark.rest
@pytest.mark.timeout(1800)
def test_pip_wheel_of_the_source_distribution(tmp_path: Path) -> None:
    """In an environment of pip's own, as `pip wheel .` does it; it downloads TensorFlow."""
    make = f"""
import os
os.chdir({str(ROOT)!r})
from scikit_build_core.build import build_sdist
print(build_sdist({str(tmp_path)!r}))
"""
    subprocess.run([sys.executable, "-c", make], check=True, timeout=600)
    (source,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "xf", source.name], cwd=tmp_path, check=True)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / "out"), "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert set(WHOLE) <= set(zipfile.ZipFile(wheel).namelist())
