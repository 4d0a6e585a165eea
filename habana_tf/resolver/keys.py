"""Makes the keys of recipes: everything that a recipe depends on, as named parts.

A cluster of several ops is keyed by its content and what it met; a program by its text. In either key are the version
of the compiler, what this CPU can do, and whether indices are checked. How products of bf16 are computed is in the
keys of what has bf16 only: to know it may take a measurement, for which other programs should not wait. What the
compiler is given and no key has stands in `key_text.LEFT_OUT`, with the reason. The lowerings that made a program of a
cluster are a front end's: it puts their version into what its clusters compute (`Cluster.computed`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

from habana_tf import settings
from habana_tf.cache.key import Key
from habana_tf.hardware.cpu import BF16_PART, Target
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from habana_tf.resolver.key_text import names, program_text
from habana_tf.version import __version__

PACKAGE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^ *from (habana_tf[.\w]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def recipe_key(goal: Target, parts: Sequence[tuple[str, object]], bf16: bool) -> Key:
    """The key of these parts, of the compiler, the CPU and the settings. bf16: whether there is any in it."""
    return Key.of(
        [
            *parts, ("compiler", compiler_version()), *target_parts(goal, bf16),
            ("indices checked", settings.HABANA_SIM_CHECK_INDICES.get() != "off"),
        ]
    )  # fmt: skip


def target_parts(goal: Target, bf16: bool) -> list[tuple[str, object]]:
    """What code is compiled for, as parts of a key: all fields of a target. bf16: of what may have products of it."""
    parts: list[tuple[str, object]] = []
    for name in names(Target):
        value = getattr(goal, name)
        parts.append((f"target.{name}", value.name.lower() if isinstance(value, Enum) else value))
    return [*parts, (BF16_PART, goal.bf16_products)] if bf16 else parts


def program_key(program: Program, goal: Target) -> Key:
    """The key of a program, whatever cluster it comes from."""
    bf16 = any(n.dtype is DType.BF16 for n in (*program.inputs, *program.nodes()))
    return recipe_key(goal, [("program", program_text(program))], bf16)


@functools.cache
def compiler_version() -> str:
    """SHA-256 over all that makes code of programs: the sources that do, and the libraries that generate code and
    compute constants. Another compiler never meets this one's recipes."""
    text = json.dumps(libraries(), sort_keys=True) + digest_of(compiler_sources())
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(sources: Iterable[Path]) -> str:
    """SHA-256 over files of this package: their names and contents."""
    total = hashlib.sha256()
    for path in sources:
        total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def imported_sources(roots: Iterable[Path], rooms: Sequence[str]) -> list[Path]:
    """The files of this package that `roots` import, at any depth, and themselves, sorted: those in these rooms (as
    "torch" or "tensorflow/lowering"), because what is in others is in a key by itself or makes no program."""
    within = tuple(f"habana_tf.{room.replace('/', '.')}." for room in rooms)
    found = {path: path.read_text() for path in roots}
    waiting, met = [*found], set[str]()
    while waiting:
        for module, several, one in _IMPORT.findall(found[waiting.pop()]):
            names = {module, *(f"{module}.{name}" for name in re.findall(r"\w+", several or one))} - met
            met |= names
            for name in names:
                path = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
                if name.startswith(within) and path not in found and path.exists():
                    found[path] = path.read_text()
                    waiting.append(path)
    return sorted(found)


def compiler_sources() -> list[Path]:
    """The files whose content is in every recipe key, sorted. Descriptions of kernels make no code."""
    found = {path for room in ("ir", "cluster", "compiler") for path in (PACKAGE / room).rglob("*.py")}
    return sorted({*found, PACKAGE / "hardware" / "cpu.py"} - {PACKAGE / "compiler" / "describe.py"})


@functools.cache
def libraries() -> dict[str, str]:
    """Versions of what compiles (llvmlite and its LLVM) and what computes constants (NumPy)."""
    import llvmlite
    import numpy as np
    from llvmlite import binding

    llvm = ".".join(map(str, binding.llvm_version_info))
    return {"llvmlite": llvmlite.__version__, "llvm": llvm, "numpy": np.__version__}


@functools.cache
def tools() -> dict[str, str]:
    """Versions of what made a recipe, for people."""
    return {"habana_tf": __version__, **libraries()}
