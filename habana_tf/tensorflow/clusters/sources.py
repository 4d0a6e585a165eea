"""The version of the lowerings of TensorFlow's ops: what decides which program a cluster becomes."""

from __future__ import annotations

import functools
from pathlib import Path

from habana_tf.resolver.keys import PACKAGE, digest_of

_NO_LOWERINGS = ("cpu_kernels.py", "packaged_programs.py", "refusals.py")
"""What is in this package and makes no program of a cluster: a change there leaves every recipe as it is."""


@functools.cache
def lowerings_version() -> str:
    """SHA-256 over the sources of the lowerings, which is in the keys of TensorFlow's clusters."""
    return digest_of(lowering_sources())


def lowering_sources() -> list[Path]:
    """The files that lower TensorFlow's ops, sorted."""
    here = Path(__file__).parent
    found = {
        *(PACKAGE / "tensorflow" / "lowering").rglob("*.py"),
        *here.rglob("*.py"),
        *(PACKAGE / "formulas").rglob("*.py"),
        PACKAGE / "tensorflow" / "facts" / "opdefs.py",
    }
    return sorted(found - {here / name for name in _NO_LOWERINGS})
