"""`habana_frameworks.tensorflow`: the package that scripts written for Gaudi import.

Habana's: its TensorFlow bridge, one module per purpose, and at its top `load_habana_module` and other names.
Here: the modules that habana_tf has for these scripts only, under the names they know. The top, and every other module
(`distribute`, `bf16_config`, `hardware`, ...), is habana_tf's: `habana_frameworks.tensorflow.distribute` *is*
`habana_tf.distribute`, one object with one state, and `habana_tf.habana_device` is `habana_device` of here
(`habana_tf/aliases.py`).

Why a package without a file around it: `habana_frameworks` has no `__init__`, so that it is a namespace and nothing
here makes `habana_frameworks.torch` look installed. Importing this imports no TensorFlow.
"""

from __future__ import annotations

from typing import Any

import habana_tf

__version__ = habana_tf.__version__
__all__ = habana_tf.__all__


def __getattr__(name: str) -> Any:
    try:
        return getattr(habana_tf, name)
    except AttributeError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


def __dir__() -> list[str]:
    return dir(habana_tf)
