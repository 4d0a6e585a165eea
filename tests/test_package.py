"""What the installed package declares: its dependencies, and that it has types."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import files, requires
from pathlib import Path

import pytest

import habana_frameworks.tensorflow as htf
import habana_tf

PACKAGES = Path(habana_tf.__file__).parent, Path(htf.__file__).parent
# TensorFlow is the user's choice (an extra), and brings these; Horovod is an extra; the native module is our own.
# PyTorch is an extra and brings typing_extensions; transformers' configurations are the user's.
WITH_TENSORFLOW = {"tensorflow", "google", "keras", "ml_dtypes"}
OPTIONAL = {"horovod", "torch", "typing_extensions", "transformers"}


def test_everything_that_is_imported_is_declared() -> None:
    declared = {re.split(r"[^\w.-]", line)[0] for line in requires("habana-tf") or () if "extra ==" not in line}
    imported: dict[str, str] = {}
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            for name in names:
                imported.setdefault(name.split(".")[0], str(path))
    foreign = set(imported) - set(sys.stdlib_module_names) - {"habana_tf", "habana_frameworks", "_habana_tf_horovod"}
    undeclared = foreign - declared - WITH_TENSORFLOW - OPTIONAL
    assert not undeclared, {name: imported[name] for name in undeclared}
    assert declared <= foreign, "declared, and imported nowhere"


@pytest.mark.skipif(not PACKAGES[0].is_relative_to(sys.prefix), reason="an editable installation: it has no list")
def test_types_are_exported() -> None:
    installed = {str(each) for each in files("habana-tf") or ()}
    assert {"habana_tf/py.typed", "habana_frameworks/tensorflow/py.typed"} <= installed
