"""`habana-tf info`: the simulated machine, the host that stands in for it, and versions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from habana_tf.cli.output import CommandError, print_json, print_table
from habana_tf.reports.units import size
from habana_tf.version import __version__

if TYPE_CHECKING:
    from habana_tf.host_changes.change import Group

PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-cpu-aws", "keras", "torch", "llvmlite", "numpy", "horovod")

_PRODUCTS = {"dot": "dot: pairs by one instruction", "widen": "widen: made fp32 first"}


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--changes", action="store_true", help="instead what is changed in TensorFlow and Keras, or PyTorch, and why"
    )
    parser.add_argument("--framework", choices=("tensorflow", "torch"), default="tensorflow",
                        help="whose (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_info)


def version(package: str) -> str | None:
    """The installed version of a package, or None."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _info(arguments: argparse.Namespace) -> int:
    if arguments.changes:
        return _changes(arguments.framework, arguments.json)
    facts = _facts()
    if arguments.json:
        print_json(facts)
        return 0
    chip, cpu = facts["chip"], facts["cpu"]
    rows = [
        ("chip (simulated)", f"{chip['device_type']}, {chip['product']}, {size(chip['hbm_bytes'])} of HBM"),
        ("cards", ", ".join(f"{card['module_id']} ({card['bus_id']})" for card in facts["cards"])),
        ("cards for a process", ", ".join(map(str, facts["possible_module_ids"])) + " (the first that is free)"),
        ("host CPU", f"{cpu['name']}, {cpu['architecture']}"),
        ("kernels use", cpu["isa"] + (" with bf16" if cpu["avx512_bf16"] else "")),
        ("products of bf16", _PRODUCTS[cpu["bf16_products"]] + f" ({cpu['bf16_products_by']})"),
        *((name, _number(name, number)) for name, number in facts["versions"].items()),
    ]
    print_table(["", ""], rows)
    return 0


def _number(package: str, number: str) -> str:
    """A version as the table has it: of PyTorch with whether it is tested."""
    if package != "torch":
        return number
    from habana_tf.torch import releases

    return f"{number} ({'tested' if releases.is_tested(number) else 'not tested'}: {releases.said()})"


def _listed(framework: str) -> tuple[Sequence[Group], Sequence[Group]]:
    """All changes of a framework, and those that its setting leaves. Raises CommandError where PyTorch is missing."""
    if framework == "tensorflow":
        from habana_tf.tensorflow import changes as tensorflow_changes

        return tensorflow_changes.ALL, tensorflow_changes.wanted()
    if version("torch") is None:
        raise CommandError("--framework torch needs PyTorch: pip install 'habana_tf[torch]'", 2)
    from habana_tf.torch import changes

    return changes.ALL, changes.wanted()


def _changes(framework: str, as_json: bool) -> int:
    """What loading the device replaces in a framework."""
    groups, chosen = _listed(framework)
    if as_json:
        print_json({"changes": [
            {"name": group.title, "made": group in chosen, "kind": group.kind, "only": group.only or None,
             "without": group.why, "worth": group.worth or None,
             "targets": [change.target for change in group.changes]}
            for group in groups
        ]})  # fmt: skip
    else:
        print_table(["name", "for", "where", "without it", "worth"], [
            (group.title if group in chosen else f"{group.title} (left out)", group.kind,
             group.only or group.framework.name, group.why, group.worth)
            for group in groups
        ])  # fmt: skip
    return 0


def _facts() -> dict[str, Any]:
    import platform
    from dataclasses import asdict

    from habana_tf.hardware import cards, chips

    return {
        "chip": asdict(chips.chip()),
        "cards": [{"index": card.index, "module_id": card.module_id, "bus_id": card.bus_id} for card in cards.cards()],
        "possible_module_ids": [card.module_id for card in cards.choice().cards],
        "cpu": cpu_facts(),
        "versions": {
            "python": platform.python_version(),
            "habana_tf": __version__,
            **{package: number for package in PACKAGES if (number := version(package)) is not None},
        },
    }


def cpu_facts() -> dict[str, Any]:
    """The host's CPU, and what of it compiled kernels use. Raises IsaError or SettingError."""
    from habana_tf.hardware import cpu

    target = cpu.target()
    products = target.bf16_answer()
    return {
        "name": cpu.host().name,
        "architecture": cpu.host().architecture,
        "isa": target.instructions,
        "avx512_bf16": target.multiplies_bf16_pairs,
        "bf16_products": products.products,
        "bf16_products_by": products.source,
        "llvm_cpu": target.llvm_cpu,
    }
