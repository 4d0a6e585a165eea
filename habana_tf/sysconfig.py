"""Where this package's native parts are, and how to compile and link against them: our `tf.sysconfig`.

Imports neither TensorFlow nor native code.
"""

from __future__ import annotations

import os

from . import __version__ as __version__

__all__ = ["__version__", "get_compile_flags", "get_include_dir", "get_lib_dir", "get_link_flags"]

_supported_tf_versions = ("2.15", "2.16", "2.17", "2.18", "2.19", "2.20", "2.21")

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def get_lib_dir() -> str:
    """The directory of the plugin and the runtime."""
    return os.path.join(_PACKAGE, "_native")


def get_include_dir() -> str:
    """The directory for C++ headers of custom kernels; it exists and has none in it yet, only a README that says so."""
    return os.path.join(_PACKAGE, "include")


def get_compile_flags() -> list[str]:
    """Flags for the C++ compiler; add those of `tf.sysconfig.get_compile_flags()`."""
    return [f"-I{get_include_dir()}", "-std=c++17"]


def get_link_flags() -> list[str]:
    """Flags for the linker; add those of `tf.sysconfig.get_link_flags()`."""
    return [f"-L{get_lib_dir()}", "-l:libhabana_runtime.so", f"-Wl,-rpath,{get_lib_dir()}"]
