"""Finds what TensorFlow computes and HPU does not, most used first.

An op is missing when TensorFlow's CPU has a kernel for it, every tensor that it takes and gives may be of an element
type that HPU has, and neither the op table has a row for it nor TensorFlow a kernel for every device. So ops of
strings, resources, data sets, references and complex numbers are not in the list. An op in the list may still not fit a
card: where the shape of an output depends on values (`ListDiff`), HPU cannot have it.

How often Keras uses an op was counted once, by `tests/keras_coverage/uses.py`, and is in `keras_uses.json` beside this
file. Whether TensorFlow has it for GPUs is read from the kernels of the installed TensorFlow; its wheels without GPU
have none.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.real_card_ops import known
from habana_tf.tensorflow.lowering.table import FAMILIES, rows
from tests.missing_ops.families import module_of


@dataclass(frozen=True)
class Missing:
    """One op. family: TensorFlow's; module: of `habana_tf/tensorflow/lowering`, where its lowering would be, or None
    where no rule knows; new_module: it is not there yet; networks, cases: of Keras, that have it in a step; gpu:
    TensorFlow has it there; real_card: where the op ran with a real card (HPU, CPU, not known)."""

    op: str
    family: str
    module: str | None
    new_module: bool
    networks: int
    cases: int
    gpu: bool
    real_card: str


def uses() -> dict[str, Any]:
    """The counts: `networks` and `cases` that were traced with which `keras` and `tensorflow`; `uses` has (networks,
    cases) per op."""
    data: dict[str, Any] = json.loads((Path(__file__).parent / "keras_uses.json").read_text())
    return data


def families(tensorflow: str) -> dict[str, str]:
    """TensorFlow's family of each of its ops that Python can call. tensorflow: the folder of the package."""
    path = Path(tensorflow, "_api", "v2", "raw_ops", "__init__.py")
    found = re.findall(
        r"^from tensorflow\.python\.ops\.gen_(\w+?)_ops\w* import (?:\w+ as )?(\w+)", path.read_text(), re.MULTILINE
    )
    return {op: family for family, op in found}


def missing() -> list[Missing]:
    """The ops, most used first."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # a list is not the place to say which GPUs are not there
    import tensorflow as tf

    counts = uses()["uses"]
    found = []
    for op, family in families(os.path.dirname(tf.__file__)).items():
        devices = _devices(op)
        if op in rows() or "CPU" not in devices or "DEFAULT" in devices or not _fits(op):
            continue
        networks, cases = counts.get(op, (0, 0))
        module = module_of(op, family)
        new = module is not None and module not in FAMILIES
        found.append(Missing(op, family, module, new, networks, cases, "GPU" in devices, known(op).where.value))
    return sorted(found, key=lambda m: (-m.networks, -m.cases, not m.gpu, m.family, m.op))


def _devices(op: str) -> set[str]:
    """The kinds of devices that matter here that TensorFlow has a kernel of its own for."""
    return {device for device in ("CPU", "GPU", "DEFAULT") if opdefs.kernels(op, device)}


def _fits(op: str) -> bool:
    """Whether an op, not an outdated one, may take and give nothing but tensors of HPU's element types."""
    facts = opdefs.facts(op)
    if facts is None or facts.deprecated or not facts.outputs:
        return False
    ours = {dtype.number for dtype in DType}

    def fits(argument: opdefs.OpArgument) -> bool:
        if argument.type:
            return argument.type in ours and not argument.is_ref
        listed = facts.allowed.get(argument.type_attr or argument.type_list_attr)
        return not argument.is_ref and (not listed or bool(listed & ours))

    return all(map(fits, facts.arguments()))
