"""`habana-tf build-kernel`: makes a library of kernels in C, for `habana_tf.load_op_library`."""

from __future__ import annotations

import argparse
import os
import sys

from habana_tf.cli.output import CommandError
from habana_tf.files.escaped import escaped

_EPILOG = """\
examples:
  habana-tf build-kernel my_kernel.c -o my_kernel.so
  habana-tf build-kernel my_kernel.c -o my_kernel.so --flags="-march=native -DWIDTH=8"

CC and CXX name the compilers. habana_kernel.h is found by itself; docs/custom-ops.md has a kernel from end to end.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="a file in C or C++")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the first source's name with .so")
    parser.add_argument("--flags", default="", help="further flags for the compiler, as one word")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from habana_tf.custom.build import BuildError, build
    from habana_tf.ir import libraries

    output = arguments.output or f"{os.path.splitext(arguments.sources[0])[0]}.so"
    try:
        said = build(arguments.sources, output, arguments.flags.split())
        library = libraries.load(output)
    except (BuildError, libraries.LibraryError) as error:
        raise CommandError(str(error), 1) from error
    if said:
        print(said, end="", file=sys.stderr)
    print(f"{escaped(output)}: {', '.join(kernel.op for kernel in library.kernels)}")
    return 0
