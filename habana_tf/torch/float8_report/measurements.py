"""The files that Neural Compressor's calibration writes, beside a model and a chip.

    inc_hooks_maxabs.json             the largest size of each layer's inputs, results and weights
    inc_hooks_maxabs_MAXABS_HW.json   scales by one method; once it is there, they are not calculated again
    inc_hooks_maxabs_0_8.json         of rank 0 of 8

A file does not say what device it is of. Scales do, where the chip cannot apply them or numbers would be beyond its
format's end; and many folders have a device's name.
"""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from habana_tf.formulas.float8 import largest
from habana_tf.ir.dtypes import DType
from habana_tf.torch.record import current

_NAMED = re.compile(r"(?:gaudi|(?<![a-z])g)_?([23])(?!\d)", re.IGNORECASE)
_GAUDI2_ALIGNED = (16.0, 1.0, 2.0**-4, 2.0**-8)
"""Scales that the matrix units of Gaudi2 apply as exponents (neural_compressor, `fp_utils.py`: biases 3, 7, 11, 15)."""
_FEW = 3


def told(path: str, model: nn.Module) -> Iterator[str]:
    """What does not go together, a sentence each. path: of one file, or what all of them begin with."""
    exact = path.endswith(".json")
    names = [path] if exact else sorted(glob.glob(glob.escape(path) + "_hooks_*.json"))
    read = {name: _read(name) for name in names if os.path.isfile(name) and not name.endswith("_mod_list.json")}
    if not any(data["Mode"] != "Scale" for data in read.values()):
        beside = ", ".join(sorted(map(os.path.basename, glob.glob(os.path.join(os.path.dirname(path), "*.json")))))
        sought = path if exact else f"{path}_hooks_*.json"
        yield f"there is no file of measurements {sought}; beside it are {beside or 'no others'}"
    on, named = current.chip().device_type.capitalize(), _NAMED.search(path)
    if named and on != f"Gaudi{named[1]}":
        yield f"{path} is named after Gaudi{named[1]}, whose scales are not those of {on}, the chip: calibrate again"
    measured: dict[str, Any] = {}
    for name, data in read.items():
        if data["Mode"] != "Scale":
            measured = data["Nodes"]
            yield from _entries(name, measured, model)
    for name, data in read.items():
        if data["Mode"] == "Scale":
            yield from _scales(name, data["Nodes"], measured, on)


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    return {"Mode": data.get("Mode", ""), "Nodes": data.get("Nodes", {})}


def _entries(path: str, nodes: dict[str, Any], model: nn.Module) -> Iterator[str]:
    """Of layers that are missing or foreign, and of those that the calibration never called."""
    modules = dict(model.named_modules())
    kinds = {type(modules[name]) for name in nodes if name in modules} | {nn.Linear}
    missing = [
        n for n, m in modules.items() if n not in nodes and (type(m) in kinds or "Unmeasured" in type(m).__name__)
    ]
    foreign = [name for name in nodes if name not in modules]
    idle = [
        name for name, node in nodes.items()
        if any(not math.isfinite(size) or size <= 0 for size in _numbers([node.get("inputs"), node.get("outputs")]))
    ]  # fmt: skip
    for names, what in (
        (missing, "has no entry for {}, which stay in bfloat16 or fail when they are called"),
        (foreign, "has entries for {}, which the model does not have: it is of another model"),
        (idle, "has 0 or no finite number for {}: nothing of the calibration reached them"),
    ):
        if names:
            yield f"{path} {what.format(_few(names))}"


def _scales(path: str, nodes: dict[str, Any], measured: dict[str, Any], on: str) -> Iterator[str]:
    """Of scales of another chip. A scale is by what a code is multiplied."""
    end, beyond = largest(DType.F8E4M3), list[tuple[float, str]]()
    for name in nodes:
        for what in ("inputs", "params"):
            sizes, scales = (_numbers(of.get(name, {}).get(what)) for of in (measured, nodes))
            if len(sizes) == len(scales):
                beyond += [
                    (size / scale, name) for size, scale in zip(sizes, scales, strict=True) if size > end * scale
                ]
    if beyond:
        size, name = max(beyond)
        yield (
            f"{path}: with its scales {len(beyond)} tensors end beyond {end:g}, the largest float8_e4m3fn of {on} "
            f"({name}: {size:.4g}): they are another chip's; delete the file, and scales are calculated again"
        )
    used = {scale for node in nodes.values() for scale in _numbers([node.get("inputs"), node.get("params")])}
    if on == "Gaudi2" and "HW" in os.path.basename(path) and "PCS" not in path and not used <= set(_GAUDI2_ALIGNED):
        others = ", ".join(f"{scale:g}" for scale in sorted(used - set(_GAUDI2_ALIGNED))[:_FEW])
        yield (
            f"{path} has scales that Gaudi2's matrix units cannot apply as exponents ({others}; they have 16, 1, 1/16 "
            "and 1/256): they are Gaudi3's; delete the file, and scales are calculated again"
        )


def _numbers(nested: Any) -> list[float]:
    """All numbers of lists within lists, or of a dictionary of them."""
    if isinstance(nested, dict):
        nested = list(nested.values())
    if isinstance(nested, Sequence) and not isinstance(nested, str):
        return [number for each in nested for number in _numbers(each)]
    return [float(nested)] if isinstance(nested, int | float) else []


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
