"""The version of the lowerings of TensorFlow's ops: what decides which program a cluster becomes."""

from __future__ import annotations

import functools
from pathlib import Path

from habana_tf.resolver.keys import PACKAGE, digest_of, imported_sources

ROWS = PACKAGE / "tensorflow" / "lowering"
_NO_LOWERINGS = ("cpu_kernels.py", "refusals.py")
"""What is in this package and makes no program of a cluster: a change there leaves every recipe as it is."""


@functools.cache
def lowerings_version() -> str:
    """SHA-256 over the sources of the lowerings, which is in the keys of TensorFlow's clusters."""
    return digest_of(lowering_sources())


def lowering_sources() -> list[Path]:
    """The files that make a program of TensorFlow's ops: the op table, and all that it and clusters import; sorted."""
    here = Path(__file__).parent
    found = imported_sources([*ROWS.rglob("*.py"), here / "cluster.py"], ["formulas", "tensorflow"])
    return [path for path in found if path not in {here / name for name in _NO_LOWERINGS}]
