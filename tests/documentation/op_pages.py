"""Writes what docs/ops.md and docs/torch-ops.md have from the op tables anew: `python -m tests.documentation.op_pages`.

That is the table at the end of each page, how many rows it has, and what the groups of element types are. The rest of
both pages is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_HEAD = re.compile(r"^\|(---\|)+\n", re.MULTILINE)


def tensorflow_page(page: str) -> str:
    """docs/ops.md as `page` with the rows of now."""
    from habana_tf.tensorflow.lowering import catalog
    from habana_tf.tensorflow.lowering.table import rows

    for members, group in catalog.GROUPS.items():
        page = re.sub(rf"^- \*{group}\*: .*$", f"- *{group}*: {', '.join(catalog.names(members))}", page, flags=re.M)
    entries = catalog.entries()
    page = re.sub(r"^\d+ TensorFlow ops", f"{len(entries)} TensorFlow ops", page, flags=re.M)
    types = {e.op: catalog.short(rows()[e.op]) or "those of its inputs" for e in entries}
    return _with_rows(page, (f"| {e.op} | {types[e.op]} | {e.real_card} | {'; '.join(e.notes)} |" for e in entries))


def torch_page(page: str) -> str:
    """docs/torch-ops.md as `page` with the rows of now."""
    from habana_tf.torch.ops import catalog

    entries = catalog.entries()
    own, habana = (sum(e.overload.startswith(name) for e in entries) for name in (catalog.OWN, "hpu::"))
    aten = len(entries) - own - habana
    counts = f"{aten} overloads of ATen and {habana} of `torch.ops.hpu` are computed by programs, {own} more are"
    pattern = r"^\d+ overloads of ATen and \d+ of `torch.ops.hpu` are computed by programs, \d+ more are"
    page = re.sub(pattern, counts, page, flags=re.M)
    runtime = {e.overload: ", ".join(f"`{name}`" for name in e.runtime) for e in entries}
    return _with_rows(page, (f"| `{e.overload}` | {e.family} | {e.types} | {runtime[e.overload]} |" for e in entries))


def _with_rows(page: str, rows: Iterable[str]) -> str:
    """`page`, with these lines in the place of all below the head of its last table."""
    head = list(_HEAD.finditer(page))[-1]
    return page[: head.end()] + "".join(f"{row}\n" for row in rows)


def main() -> None:
    for name, made in (("ops.md", tensorflow_page), ("torch-ops.md", torch_page)):
        page = DOCS / name
        page.write_text(made(page.read_text()))


if __name__ == "__main__":
    main()
