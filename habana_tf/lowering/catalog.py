"""The op table for people: what HPU runs, of which element types, and what to know of each op.

`habana-tf ops` prints it and `docs/ops.md` holds it; `make docs` writes that file anew. Notes come from the row (inputs
whose values must be known on the host, variables) and from the first sentence of the lowering's docstring, so there is
nothing to keep in step by hand. Needs no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.ir.dtypes import DType
from habana_tf.lowering.real_card_ops import known
from habana_tf.lowering.row import ALL, FLOATS, INTS, NUMERIC, Row
from habana_tf.lowering.table import rows

_GROUPS = {ALL: "all", NUMERIC: "numeric", INTS: "integer", FLOATS: "float"}

_HEAD = """\
# Ops that run on HPU

{count} TensorFlow ops, in the element types given for each type attribute:

{groups}

"`axis` fixes a shape" says that the value of this input must be known on the host before a launch, because another
value may mean another recipe. Not every value does: where a slice or a range begins is read at run time, so that `v[i]`
is one recipe for every i, and ranges of one length are one. Ops that run by themselves have one recipe for all shapes
where they are elementwise, random, `Fill`, a softmax, a padding or (in float32, and unless it is work of many
milliseconds) a product or a convolution; a size that changes in a cluster (of a batch, of sequences, of images) costs
one more recipe, for every size of it: [recompilations.md](recompilations.md) has a table by kind of layer, and the
exceptions.

## Ops that run on the CPU

An op that is not here, or not in the element type at hand, runs on the CPU, and `placement_report()` says so;
`habana_tf.explain(model, x, y)` tells it before training. Reading, assigning and creating variables, control flow,
function calls and tensor lists are TensorFlow's own on every device. float64 stays on the CPU, as on a card.

bfloat16 is added and multiplied in float32. What one kernel computes of several ops is rounded where it is stored,
cast, compared, ordered or rounded to integers, and not after each op: a compiled function may differ from eager ops in
bfloat16's last digits, and is the closer to the exact result.

Whatever TensorFlow can put on a GPU may be put on HPU by name, on this page or not: TensorFlow's CPU kernels compute
what HPU has not. Arrays are moved to the CPU with all that shares them.

In a graph (of a session, of `tf.function`) under `tf.device("/HPU:0")` an op that no kernel on HPU takes is made on the
CPU of the same task, with or without soft placement: `tf.data` pipelines, lookup tables, queues, readers, strings,
sparse and ragged tensors, image codecs, TF1's variables by reference, and what shares their state. `op.device` says so.
A graph that is given to TensorFlow in C++, and an eager op, are not treated so.

Of ops that ran eagerly the report has a list of its own, each op once. TensorFlow moves them by itself and remembers
neither element types nor who wanted it: an op of this page is in the list when it ran on the CPU for another element
type or because the program put it there. Under `with tf.device("/HPU:0")`, and with
`tf.config.set_soft_device_placement(False)`, an eager op without an HPU kernel is an error, which says where it is.

A few ops, `Unique` above all, TensorFlow runs in host memory whatever the device: the report counts them as the CPU's.
Arithmetic on int32 that no launch takes along, as most that is done eagerly, is the host's too, and is not counted.

## Values that TensorFlow refuses

A launch goes on whatever its values are, as on TensorFlow's other accelerators. Where TensorFlow's CPU kernels raise an
error because of one, HPU gives (for NaN, infinities and denormals see [special-values.md](special-values.md)):

| value | result |
|---|---|
| integer division or remainder by 0 | 0 (of int32 eagerly TensorFlow's error, see above) |
| integer power with a negative exponent | as of numbers modulo 2 to the type's width: 0 of even bases, true of 1, -1 |
| gather: an index out of range | 0 |
| scatter, segment sum: an index out of range | nothing is written for it |
| `ResourceSparseApply...`: an index twice | the last of its rows counts (optimizers add them up before they call it) |
| sparse cross entropy: a label out of range | NaN in its row |

A launch that met an index or a label out of range says so, once per compiled launch, with op, node, argument, one such
index and the bound. `HABANA_SIM_CHECK_INDICES=error` makes it the launch's error (InvalidArgument), `off` leaves the
check out. Not looked at are indices inside loops, and the begins and sizes of slices. Variables that a launch updates
have their new values when it fails by this error.

## Ops

This page is made by `make docs` from the op table (`habana_tf/lowering`); `habana-tf ops` prints the same. The third
column says whether the op is known to have run on a real card: *HPU*, on the card; *CPU*, beside it or not at all; *not
known*, no list that we have names it. It is about names, not about element types:
[placement.md](placement.md#would-it-run-on-a-real-card) has the lists.

| op | element types | real card | notes |
|---|---|---|---|
"""


@dataclass(frozen=True)
class OpEntry:
    """One op. types: names of element types per type attribute; notes: sentences; real_card: where it ran with a real
    card (HPU, CPU, not known), and lists what says so."""

    op: str
    types: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    real_card: str
    lists: tuple[str, ...]


def entries() -> list[OpEntry]:
    """Every op of the table, by name."""
    made = []
    for name in sorted(rows(), key=str.lower):
        row = rows()[name]
        types = {attr: tuple(names(allowed)) for attr, allowed in row.types.items()}
        real = known(name)
        made.append(OpEntry(name, types, tuple(_notes(row)), real.where.value, real.lists))
    return made


def names(types: tuple[DType, ...]) -> list[str]:
    """TensorFlow's names of element types."""
    return [dtype.label for dtype in types]


def short(row: Row) -> str:
    """The element types of a row in one line: groups where one fits."""
    return "; ".join(f"{attr}: {_GROUPS.get(types) or ', '.join(names(types))}" for attr, types in row.types.items())


def _notes(row: Row) -> list[str]:
    out = []
    if row.fixed:
        out.append(f"{_listed(row.fixed)} {'fix' if len(row.fixed) > 1 else 'fixes'} a shape")
    if row.host:
        out.append(f"{_listed(row.host)} read on the host at run time")
    if row.updates:
        out.append(f"updates the variable{'s' * (len(row.updates) > 1)} {_listed(row.updates)}")
    if row.stateful_random:
        out.append("draws TensorFlow's own random stream")
    doc = " ".join((row.lower.__doc__ or "").split("\n\n")[0].split())
    if doc:
        out.append(doc.rstrip("."))
    return out


def _listed(arguments: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in arguments)


def markdown() -> str:
    """The page `docs/ops.md`."""
    groups = "\n".join(f"- *{word}*: {', '.join(names(types))}" for types, word in reversed(_GROUPS.items()))
    lines = [
        f"| {entry.op} | {short(rows()[entry.op]) or 'those of its inputs'} | {entry.real_card} "
        f"| {'; '.join(entry.notes)} |"
        for entry in entries()
    ]
    return _HEAD.format(count=len(lines), groups=groups) + "\n".join(lines) + "\n"
