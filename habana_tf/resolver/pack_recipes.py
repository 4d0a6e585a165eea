"""Compiles the recipes that come with the package (`packaged`), from the texts of their programs.

    python -m habana_tf.resolver.pack_recipes [--architecture aarch64] habana_tf/resolver/recipes.zip

The build of a wheel runs this, for the architecture of the wheel, which need not be this machine's. It needs no
framework: a front end made the programs and wrote them down (`tensorflow.clusters.packaged_programs`). In the file, a
program is a paragraph: for which kinds of CPU it is compiled and what its recipe is called, then its text
(`program_reader`). A program that is out of date is never found at run time, and its op is compiled as any other; a
test compares the file with what the front end makes now.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from habana_tf.cache import entry as entry_format
from habana_tf.cache.entry import Entry
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack
from habana_tf.hardware.cpu import ARCHITECTURES, Target, common_targets
from habana_tf.ir.primitives import Program
from habana_tf.resolver.packaged import packaged_key
from habana_tf.resolver.program_reader import read_program

PROGRAMS = Path(__file__).with_name("packaged_programs.txt")


def programs(text: str, architecture: str) -> Iterator[tuple[Target, str, Program]]:
    """(kind of CPU, name, program) of each recipe that an architecture has. text: as in `PROGRAMS`."""
    kinds = {kind.instructions: kind for kind in common_targets() if kind.architecture == architecture}
    for paragraph in text.split("\n\n"):
        head, _, program = paragraph.strip("\n").partition("\n")
        wanted, name = head.split(" ")
        for kind in wanted.split(","):
            if kind in kinds:
                yield kinds[kind], name, read_program(program)


def compiled(program: Program, name: str, kind: Target) -> tuple[str, bytes]:
    """(name of the member, the entry) of a program."""
    key = packaged_key(program, kind)
    header, sections = pack(compile_program(program, name, kind))
    about = {"name": name, "digest": key.digest, "key": key.manifest(), "created": 0.0, "compile_seconds": 0.0}
    return key.digest, entry_format.encode(Entry({**header, **about}, sections))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="where the recipes go; replaced whole")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default=platform.machine(), help="default: this one")
    options = parser.parse_args()
    begin = time.monotonic()
    text = PROGRAMS.read_text(encoding="utf-8")
    members = dict(compiled(program, name, kind) for kind, name, program in programs(text, options.architecture))
    with ZipFile(options.file + ".tmp", "w", ZIP_DEFLATED) as out:
        for digest, data in sorted(members.items()):
            out.writestr(digest, data)
    os.replace(options.file + ".tmp", options.file)
    print(f"{len(members)} recipes in {time.monotonic() - begin:.1f} s, {os.path.getsize(options.file) >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
