"""How much PyTorch's own samples try: the table of docs/torch.md.

    make docs-torch

writes that part of the page anew, after running them all (minutes of processor time), and fails where a sample does, or
where a row of the table is reached by no test. Its counts are those of the release of PyTorch that is installed, which
the page names.

    python tests/torch/opinfo_report.py --ops frac nn.functional.relu

runs the samples of these ops only, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

from habana_tf.resolver import placements
from habana_tf.torch.ops.table import rows
from tests.torch import opinfo
from tests.torch import rows as by_row
from tests.torch.opinfo import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
BEGIN, END = "<!-- samples -->", "<!-- end of samples -->"
MOST = 8
"""Samples of an op."""
WAYS = {
    "float32, lazy": (torch.float32, True),
    "float32, op by op": (torch.float32, False),
    "bfloat16, lazy": (torch.bfloat16, True),
    "int64, lazy": (torch.int64, True),
}
FORMS = "forward", "gradients", "in place", "strided", "out"


def totals() -> str:
    """What is known without running anything: ops, and the skipped ones by reason."""
    tied = [name for name in opinfo.named() if not opinfo.skipped(name, torch.float32)]
    reasons: dict[str, set[str]] = defaultdict(set)
    for name in opinfo.SKIPPED:
        reasons[opinfo.SKIPPED[name]].add(name)
    for name in (n for n in tied if opinfo.skipped(n, torch.bfloat16)):
        reasons[opinfo.skipped(name, torch.bfloat16)].add(f"{name} of bfloat16 and int64")
    lines = [
        f"- {len(names)}: {reason}: {', '.join(f'`{n}`' for n in sorted(names))}"
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1]))
    ]
    return f"Skipped, of {len(opinfo.OPS)} ops and variants:\n\n" + "\n".join(lines) + "\n"


def release() -> str:
    """Of PyTorch, in the words of the page."""
    return f"PyTorch {torch.__version__.partition('+')[0]}"


def table(found: Mapping[str, Outcome], reached: int) -> str:
    """The table of what ran, by way."""
    head = ("way", "ops", *FORMS, "with a part on the CPU", "failed")
    lines = [head, ("---",) * len(head)]
    for way, each in found.items():
        counts = (each.ops, *(each.ran[form] for form in FORMS), each.left, len(each.failures))
        lines.append((way, *(f"{n:,}" for n in counts)))
    calls = sum(each.ran.total() - each.ran["gradients"] for each in found.values())
    said = (
        f"With {release()}, at most {MOST} samples an op: {calls:,} calls compared, "
        f"{sum(len(each.failures) for each in found.values())} failed. Their programs have {reached} of the "
        f"{len(rows())} rows of [the table](torch-ops.md); {len(by_row.SAMPLES)} have samples of ours "
        "(`tests/torch/rows.py`), random numbers, fused optimizers and layers of recurrent networks tests of their "
        "own.\n\n"
    )
    return said + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def measure(ops: Sequence[str] = ()) -> tuple[dict[str, Outcome], set[str]]:
    """Runs all samples, or those of some ops. Returns what came of them by way, and the rows of their programs."""
    from habana_tf.torch import loader

    recorder, found = loader.load(), {}
    for way, (dtype, lazy) in WAYS.items():
        recorder.flush()
        recorder.lazy = lazy
        found[way] = opinfo.some(0, 1, dtype, MOST, ops)
        for each in found[way].failures:
            print(f"{way}: {each}", file=sys.stderr)
    return found, set(placements.placements().ops) & set(rows())


def documented() -> str:
    """The part of the page between its marks."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs PyTorch's own samples of ops on the device and on the CPU.")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="these ops only, by PyTorch's names for them")
    parser.add_argument("--write", action="store_true", help="write the table of docs/torch.md anew")
    asked = parser.parse_args()
    if asked.ops:
        if unknown := sorted({*asked.ops} - {*opinfo.OPS}):
            parser.error(f"PyTorch has no samples of {', '.join(unknown)}")
        found, reached = measure(asked.ops)
        print(table(found, len(reached)).partition("\n\n")[2])
        print("rows reached:", *sorted(reached))
        sys.exit(any(each.failures for each in found.values()))
    found, reached = measure()
    made = f"{table(found, len(reached))}\n{totals()}"
    print(made)
    untried = sorted({*rows()} - reached - {*by_row.SAMPLES} - {*by_row.ELSEWHERE})
    print("rows with samples of both:", *sorted(reached & {*by_row.SAMPLES}))
    if asked.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{rest.partition(END)[2]}")
    sys.exit(f"no test reaches {', '.join(untried)}" if untried else any(each.failures for each in found.values()))


if __name__ == "__main__":
    main()
