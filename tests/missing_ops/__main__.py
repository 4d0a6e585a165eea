"""Prints the list: `python -m tests.missing_ops [NAME ...]`, where NAME is a part of an op's name or a family.

Families come in the order of their most used op, and in each the most used op comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from habana_tf.cli.output import print_table
from tests.missing_ops.missing import Missing, missing, uses


def chosen(every: Sequence[Missing], names: Sequence[str]) -> list[Missing]:
    """Those with one of `names` in the op's name or as their family, all without names, a family at a time."""
    wanted = [name.lower() for name in names]
    found = [m for m in every if not wanted or any(name in m.op.lower() or name == m.family for name in wanted)]
    order = list(dict.fromkeys(m.family for m in found))
    return sorted(found, key=lambda m: order.index(m.family))


def main(names: Sequence[str]) -> None:
    found, counted = chosen(missing(), names), uses()
    columns = ["family", "op", ">networks", ">cases", "GPU", "real card", "lowering"]
    print_table(columns, [
        (m.family, m.op, str(m.networks), str(m.cases), "yes" if m.gpu else "", m.real_card,
         (m.module or "") + (" (new)" if m.new_module else "")) for m in found
    ])  # fmt: skip
    print(
        f"\n{len(found)} ops that TensorFlow computes on the CPU and HPU does not, of element types that HPU has.\n"
        f"networks, cases: how many have it in a training step, of {counted['networks']} networks and of "
        f"{counted['cases']} layers, losses, metrics, optimizers, schedules and activations of Keras "
        f"{counted['keras']}.\n"
        "GPU: TensorFlow has it there. real card: whether it is known to have run there (docs/placement.md). lowering: "
        "the module of habana_tf/tensorflow/lowering where it belongs."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
