"""Libraries of kernels in C, built once per process, and the kernels of what ran last."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from habana_tf.custom.build import build

SOURCE = Path(__file__).with_name("kernels.c")
SORT = Path(__file__).parents[2] / "examples" / "custom_ops" / "sort_rows.c"

FOLDER = tempfile.TemporaryDirectory(prefix="habana-kernels-")


@functools.cache
def built(source: Path, *flags: str) -> str:
    """The path of the library that a file becomes with these flags of the C compiler."""
    output = Path(FOLDER.name) / f"{source.stem}{''.join(flags)}.so".replace("=", "")
    build([str(source)], str(output), ["-O1", *flags])
    return str(output)


@functools.cache
def ops(*flags: str) -> Any:
    import habana_tf

    return habana_tf.load_op_library(built(SOURCE, *flags))


@functools.cache
def sort_rows() -> Any:
    import habana_tf

    return habana_tf.load_op_library(built(SORT)).sort_rows
