"""Directories and flags point into the packages."""

from __future__ import annotations

from pathlib import Path

import habana_tf
from habana_frameworks.tensorflow import sysconfig


def test_directories_and_flags() -> None:
    lib = Path(sysconfig.get_lib_dir())
    assert lib.parent == Path(habana_tf.__file__).parent and (lib / "libhabana_runtime.so").exists()
    include = Path(sysconfig.get_include_dir())
    assert include.parent == Path(sysconfig.__file__).parent and include.is_dir()
    assert f"-I{sysconfig.get_include_dir()}" in sysconfig.get_compile_flags()
    assert f"-L{sysconfig.get_lib_dir()}" in sysconfig.get_link_flags()
    assert sysconfig.__version__ == habana_tf.__version__
    assert sysconfig._supported_tf_versions[0] == "2.15" and sysconfig._supported_tf_versions[-1] == "2.21"
