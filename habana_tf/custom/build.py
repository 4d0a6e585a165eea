"""Builds a library of kernels with the system's C or C++ compiler and the flags that such a library needs.

The code is for any CPU of this kind unless flags say otherwise (-march=native), so a library built on one machine runs
on another. No fast arithmetic is switched on, so results depend little on the compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from habana_tf.custom.signature import CustomOpError

FLAGS = ("-shared", "-fPIC", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden", "-ffp-contract=off")
_CPP = (".cc", ".cpp", ".cxx", ".C")


class BuildError(CustomOpError):
    """A source that does not compile, or no compiler; the message has what the compiler said."""


def include_dir() -> Path:
    """The directory of `habana_kernel.h`. Raises BuildError where the package came without it."""
    from importlib.util import find_spec

    spec = find_spec("habana_frameworks.tensorflow")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        if (Path(place) / "include" / "habana_kernel.h").is_file():
            return Path(place) / "include"
    raise BuildError("habana_kernel.h is not beside habana_frameworks.tensorflow: install habana_tf again")


def command(sources: Sequence[str], output: str, flags: Sequence[str] = ()) -> list[str]:
    """The compiler's command line. CC and CXX name the compilers. Raises BuildError where there is none."""
    cpp = any(source.endswith(_CPP) for source in sources)
    variable, names = ("CXX", ("c++", "g++", "clang++")) if cpp else ("CC", ("cc", "gcc", "clang"))
    chosen = os.environ.get(variable, "").split()
    found = chosen or [path for name in names if (path := shutil.which(name)) is not None][:1]
    if not found or shutil.which(found[0]) is None:
        raise BuildError(
            f"no compiler for {'C++' if cpp else 'C'}: install one (Debian's package build-essential) or name it in "
            f"{variable}"
        )
    standard = "-std=c++17" if cpp else "-std=c11"
    return [*found, standard, *FLAGS, f"-I{include_dir()}", *flags, *sources, "-o", output, "-lm"]


def build(sources: Sequence[str], output: str, flags: Sequence[str] = ()) -> str:
    """Makes a library of sources and gives what the compiler said (warnings). Raises BuildError."""
    for source in sources:
        if not os.path.isfile(source):
            raise BuildError(f"there is no file {source}")
    temporary = f"{output}.{os.getpid()}.tmp"  # a process that loads it meanwhile finds the old one or the new one
    words = command(sources, temporary, flags)
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(words)}\n{done.stderr}{done.stdout}".rstrip())
    os.replace(temporary, output)
    return done.stderr
