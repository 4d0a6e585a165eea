"""Directories and flags point into this package."""

from __future__ import annotations

from pathlib import Path

import habana_tf
from habana_tf import sysconfig


def test_directories_and_flags() -> None:
    package = Path(habana_tf.__file__).parent
    assert (Path(sysconfig.get_lib_dir()) / "libhabana_runtime.so").exists()
    include = Path(sysconfig.get_include_dir())
    assert include.parent == package and include.is_dir()
    assert f"-I{sysconfig.get_include_dir()}" in sysconfig.get_compile_flags()
    assert f"-L{sysconfig.get_lib_dir()}" in sysconfig.get_link_flags()
    assert sysconfig.__version__ == habana_tf.__version__
    assert sysconfig._supported_tf_versions[0] == "2.15" and sysconfig._supported_tf_versions[-1] == "2.21"
