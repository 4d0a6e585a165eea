"""Looks recipes up that come with the package: of eager ops, over all shapes, per kind of CPU.

The first calls of a model in eager mode meet some ten ops that every model has. Compiling each takes some milliseconds,
longer than computing it; so what does not depend on shapes is compiled when the package is built (`pack_recipes`): for
x86-64 with AVX2 and with AVX-512 as any such CPU has it, or for AArch64. Such a recipe is found by its program, the
sources that made it and the settings: where one of them is another, it is not taken, and the op is compiled as any
other.

    recipes.zip      a member per recipe, called by its key's digest: an entry as in the recipe cache

Invariant: trouble with the file never fails a launch; it is said once, and ops are compiled.
"""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from habana_tf import settings
from habana_tf.cache import entry as entry_format
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.key import Key
from habana_tf.compiler.packed_recipe import unpack
from habana_tf.compiler.recipe import Recipe
from habana_tf.hardware.cpu import Target
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from habana_tf.resolver.key_text import program_text
from habana_tf.resolver.keys import sources_version, target_parts

log = logging.getLogger("habana_tf")

FILE = Path(__file__).with_name("recipes.zip")


def packaged_key(program: Program, common: Target) -> Key:
    """What a packaged recipe is found by. common: the kind of CPU (`Target.common`)."""
    parts = [("program", program_text(program)), ("sources", sources_version())]
    return Key.of([*parts, *target_parts(common, bf16=False), *settings.key_parts()])


def packaged(program: Program, goal: Target) -> Recipe | None:
    """The recipe for a program that came with the package, if it did."""
    common = goal.common()
    if common is None or (file := _opened()) is None:
        return None
    if any(n.dtype is DType.BF16 for n in (*program.inputs, *program.nodes())):  # CPUs of one kind differ in that
        return None
    try:
        found = entry_format.decode(file.read(packaged_key(program, common).digest))
        return unpack(found.name, found.sections)
    except KeyError:
        return None
    except (EntryError, BadZipFile, OSError, ValueError) as error:
        log.warning("%s is damaged (%s): eager ops are compiled; install habana_tf again", FILE, error)
        _opened.cache_clear()
        return None


@functools.cache
def _opened() -> ZipFile | None:
    """The file, kept open. None where the package was built without, for work on its sources."""
    try:
        return ZipFile(FILE)
    except FileNotFoundError:
        return None
    except (BadZipFile, OSError) as error:
        log.warning("%s cannot be read (%s): eager ops are compiled; install habana_tf again", FILE, error)
        return None
