"""Notes the IR and the plan of each program that this process compiles, in the directory that IR_RECORD names."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

RECORD, LABEL = "IR_RECORD", "IR_LABEL"
"""Variables: the directory of the record, and what the programs of a process are listed under. Without a label that is
the test that runs."""


def text_path(record: Path, digest: str) -> Path:
    """Where a record keeps the text of a digest, compressed."""
    return record / digest[:2] / f"{digest}.gz"


def install(module: Any) -> None:
    """Makes `compile_program` of the module `habana_tf.compiler.compile` note what it makes."""
    record = Path(os.environ[RECORD])
    current = threading.local()
    compile_program = module.compile_program
    objects: Any = module.Objects

    class Recorded(objects):
        """Keeps the text of every module."""

        def add(self, ir: str) -> None:
            current.texts.append(ir)
            super().add(ir)

    @functools.wraps(compile_program)
    def recorded(program: Any, name: str, *rest: Any, **more: Any) -> Any:
        outer, current.texts = getattr(current, "texts", None), []
        try:
            recipe = compile_program(program, name, *rest, **more)
            ir = "\n".join(current.texts)
        finally:
            current.texts = outer
        _note(record, name, ir, _plan(recipe))
        return recipe

    module.Objects, module.compile_program = Recorded, recorded


def _plan(recipe: Any) -> str:
    from habana_tf.compiler.packed_recipe import pack

    _, sections = pack(recipe)
    constants = hashlib.sha256(sections["constants"]).hexdigest()
    plan = json.dumps(json.loads(sections["plan"]), indent=0)
    return f"{plan}\nconstants: {constants}\n{json.dumps(recipe.kernels, indent=0)}"


def _note(record: Path, name: str, ir: str, plan: str) -> None:
    label = os.environ.get(LABEL) or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    row = [label, name, _keep(record, ir), _keep(record, plan)]
    with open(record / f"programs-{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps(row) + "\n")


def _keep(record: Path, text: str) -> str:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    path = text_path(record, digest)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(data, 1))
    return digest
