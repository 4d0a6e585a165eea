"""Python imports this first in every process that has this directory in PYTHONPATH: records what it compiles.

The compiler is not imported for that: when it is, its module is changed before anybody takes a function of it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COMPILER = "habana_tf.compiler.compile"


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None and spec.loader is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            from tests.ir_digests import recorder

            load(module)
            recorder.install(module)

        loader.exec_module = load_and_change
        return spec


if os.environ.get("IR_RECORD"):
    sys.meta_path.insert(0, _Finder())
