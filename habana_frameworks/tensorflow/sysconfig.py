"""`sysconfig`: where the native parts are, and how to compile and link against them, in the form of `tf.sysconfig`.

Habana's: the directories and flags with which a custom op was built against the bridge's headers and libraries.
Here: habana_tf's libraries, and the header of kernels in C (docs/custom-ops.md), for which `habana-tf build-kernel` has
all flags; such a kernel links against nothing. Imports neither TensorFlow nor native code.
"""

from __future__ import annotations

import importlib.util
import os

import habana_tf
from habana_tf import __version__ as __version__

__all__ = ["__version__", "get_compile_flags", "get_include_dir", "get_lib_dir", "get_link_flags"]

_supported_tf_versions = ("2.15", "2.16", "2.17", "2.18", "2.19", "2.20", "2.21")

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.abspath(habana_tf.__file__))


def get_lib_dir() -> str:
    """The directory of the plugin and the runtime, which in an editable installation is not beside the sources."""
    spec = importlib.util.find_spec("habana_tf._native._bridge")
    return os.path.dirname(spec.origin) if spec and spec.origin else os.path.join(_PACKAGE, "_native")


def get_include_dir() -> str:
    """The directory of `habana_kernel.h`."""
    return os.path.join(_HERE, "include")


def get_compile_flags() -> list[str]:
    """Flags for the C++ compiler; add those of `tf.sysconfig.get_compile_flags()`."""
    return [f"-I{get_include_dir()}", "-std=c++17"]


def get_link_flags() -> list[str]:
    """Flags for the linker; add those of `tf.sysconfig.get_link_flags()`."""
    return [f"-L{get_lib_dir()}", "-l:libhabana_runtime.so", f"-Wl,-rpath,{get_lib_dir()}"]
