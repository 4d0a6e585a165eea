"""The bf16 conversion: fp32 ops of a graph compute in bf16 instead.

What: with `TF_BF16_CONVERSION` on, the ops that its configuration names (`bf16_config`) get the element type bfloat16.
A Cast is added before each of their float32 inputs, and behind each output that an fp32 op uses. Between two converted
ops there is none: the value is passed rounded to bf16.

Why here: after placement, because only ops that HPU takes can be converted; before everything else, so that later
phases see the casts as work of the cluster. Accumulation in fp32 is up to the compiler.

    float ─ MatMul ─ Relu ─┬─ Exp (kept fp32)        float ─ Cast ─ MatMul(bf16) ─ Relu(bf16) ─┬─ Cast ─ Exp
                           └─ MatMul            ->                                             └─ MatMul(bf16) ─ Cast

How: starting from the ops that are always converted, conditional ops with a converted neighbour and strict ones with
only converted inputs are added until nothing changes. The result does not depend on the order.

Invariants: variables stay fp32 (their read values are cast), and so do inputs and outputs of the graph, values that the
host reads, and element types that an op has in fp32 only (the statistics of a batch norm). One Cast per tensor and
direction. The conversion is idempotent. Every op with a float32 tensor gets a verdict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.graph.bf16_config import BUILT_IN, Config
from habana_tf.tensorflow.graph.ops import (
    OpArgument,
    argument_names,
    attr,
    facts,
    input_types,
    output_names,
    output_types,
)
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.view import Node, Ref, View
from habana_tf.tensorflow.lowering.row import Row
from habana_tf.tensorflow.lowering.table import lookup

F32, BF16 = DType.F32.number, DType.BF16.number


class Why(Enum):
    """Why an op is bf16 or fp32; the value is the sentence shown to people."""

    ALLOWED = "in the allow list"
    CONDITIONAL = "in the conditional list, and a neighbour is bf16"
    STRICT = "in the strict list, and all its inputs are bf16"
    FORCED = "named by the convertible exceptions"
    KEPT = "named by the non-convertible exceptions"
    UNLISTED = "in no list"
    ALONE = "in the conditional list, but no neighbour is bf16"
    MIXED = "in the strict list, but not all its inputs are bf16"
    NOT_ON_HPU = "listed, but not in an HPU cluster: see its placement"
    VARIABLE = "listed, but it works on a variable, and variables stay fp32"
    HOST_VALUE = "listed, but the host reads its value"
    NO_BF16 = "listed, but HPU or TensorFlow has it only in fp32"

    @property
    def converted(self) -> bool:
        return self in (Why.ALLOWED, Why.CONDITIONAL, Why.STRICT, Why.FORCED)


@dataclass
class Conversion:
    """What was done to one graph. verdicts: by (name, op); casts: how many Cast nodes were added."""

    source: str
    verdicts: dict[tuple[str, str], Why] = field(default_factory=dict)
    casts: int = 0

    def judge(self, node: Node, why: Why) -> None:
        self.verdicts[_name(node), node.op] = why

    def counts(self) -> dict[tuple[str, Why], int]:
        """How many nodes of each op got each verdict."""
        return dict(Counter((op, why) for (_, op), why in self.verdicts.items()))


@dataclass(frozen=True)
class _Types:
    """What conversion changes of a node: type attributes, and the positions of inputs and outputs they rule."""

    attrs: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def convert(view: View, placement: Placement, config: Config) -> Conversion:
    """Converts what the configuration names; new Casts are in the placement as candidates."""
    done = Conversion(config.source)
    types: dict[Node, _Types] = {}
    waiting: dict[Node, Why] = {}
    chosen: list[Node] = []
    for node in view.alive():
        if node.op == "Cast" or F32 not in (*input_types(node), *output_types(node)):
            continue
        if not placement.takes(node) and placement.reasons.get(node) is None:  # the rim of the graph, constants
            continue
        wish = _wish(node, config)
        if wish is Why.UNLISTED or wish is Why.KEPT:
            done.judge(node, wish)
            continue
        changes = _changes(node, placement.row(node))
        if isinstance(changes, Why):
            done.judge(node, changes)
            continue
        types[node] = changes
        if wish in (Why.ALLOWED, Why.FORCED):
            done.judge(node, wish)
            chosen.append(node)
        else:
            done.judge(node, Why.ALONE if wish is Why.CONDITIONAL else Why.MIXED)
            waiting[node] = wish
    _spread(view, types, waiting, chosen, done)
    if chosen:
        done.casts = _rewrite(view, placement, types, set(chosen))
    return done


def _name(node: Node) -> str:
    """The name that the program knows, if it gave one."""
    return node.original_name or node.name


def _wish(node: Node, config: Config) -> Why:
    """What the configuration says of a node, neighbours and feasibility apart."""
    name, op = _name(node), node.op
    if any(rule.matches(name, op) for rule in config.keep):
        return Why.KEPT
    row = lookup(op) if config.source in BUILT_IN else None
    own = row.bf16 if row is not None else None
    if op in config.allow or own == "allow":
        return Why.ALLOWED
    if any(rule.matches(name, op) for rule in config.force):
        return Why.FORCED
    if op in config.conditional or own == "conditional":
        return Why.CONDITIONAL
    return Why.STRICT if op in config.strict or own == "strict" else Why.UNLISTED


@opdefs.remembered
def _bf16_attrs(op: str) -> tuple[frozenset[str], frozenset[str]]:
    """The type attributes of an op that may be bfloat16, by its OpDef: (single types, lists of types)."""
    known = facts(op)
    if known is None:
        return frozenset(), frozenset()
    free = [name for name in known.kinds if BF16 in known.allowed.get(name, (BF16,))]
    single, lists = (frozenset(n for n in free if known.kinds[n] == kind) for kind in ("type", "list(type)"))
    return single, lists


def _changes(node: Node, row: Row | None) -> _Types | Why:
    """The changes that make a node bf16, or why there are none."""
    known = facts(node.op)
    if row is None or known is None:
        return Why.NOT_ON_HPU
    if row.variables or row.updates:
        return Why.VARIABLE
    single, lists = _bf16_attrs(node.op)
    attrs = []
    for name in dict.fromkeys(_ruling(a) for a in (*known.inputs, *known.outputs)):
        # without a word on a list of types, a row takes any of HPU's
        if (name in single and DType.BF16 in row.types.get(name, ())) or (
            name in lists and DType.BF16 in row.types.get(name, (DType.BF16,))
        ):
            value = attr(node, name)
            if F32 in (value.list.type if name in lists else (value.type,)):
                attrs.append(name)
    rules = {a.name: _ruling(a) for a in (*known.inputs, *known.outputs)}
    names = argument_names(node)
    ins = [k for k, t in enumerate(input_types(node)) if t == F32 and rules[names[k]] in attrs]
    outs = [k for k, t in enumerate(output_types(node)) if t == F32 and rules[output_names(node)[k]] in attrs]
    if not ins and not outs:
        return Why.NO_BF16
    if any(names[k] in row.fixed or names[k] in row.host for k in ins):
        return Why.HOST_VALUE
    return _Types(tuple(attrs), tuple(ins), tuple(outs))


def _ruling(argument: OpArgument) -> str:
    return argument.type_attr or argument.type_list_attr


def _spread(
    view: View, types: dict[Node, _Types], waiting: dict[Node, Why], chosen: list[Node], done: Conversion
) -> None:
    """Adds to `chosen` what its neighbours pull in."""
    if not waiting:
        return
    readers: dict[Ref, list[Node]] = {}
    for node, changes in types.items():
        for k in changes.inputs:
            readers.setdefault(node.inputs[k], []).append(node)
    bf16: set[Ref] = {(node, k) for node in chosen for k in types[node].outputs}
    for node in chosen:  # which grows meanwhile
        after = [r for k in types[node].outputs for r in readers.get((node, k), ())]
        before = [node.inputs[k][0] for k in types[node].inputs if _gives(node.inputs[k], types)]
        for neighbour in (*before, *after):
            wish = waiting.get(neighbour)
            if wish is None:
                continue
            if wish is Why.STRICT:
                inputs = [neighbour.inputs[k] for k in types[neighbour].inputs]
                if not inputs or not bf16.issuperset(inputs):
                    continue
            del waiting[neighbour]
            done.judge(neighbour, wish)
            chosen.append(neighbour)
            bf16.update((neighbour, k) for k in types[neighbour].outputs)


def _gives(ref: Ref, types: dict[Node, _Types]) -> bool:
    """Whether conversion of its node would make a tensor bf16."""
    changes = types.get(ref[0])
    return changes is not None and ref[1] in changes.outputs


def _rewrite(view: View, placement: Placement, types: dict[Node, _Types], chosen: set[Node]) -> int:
    """Sets the types and puts the casts in; returns how many."""
    bf16 = {(node, k) for node in chosen for k in types[node].outputs}
    row = lookup("Cast")
    casts: dict[Ref, Node] = {}

    def cast(ref: Ref, device: str, down: bool) -> Ref:
        if ref not in casts:
            name, source, to = ("to_bf16", F32, BF16) if down else ("to_fp32", BF16, F32)
            casts[ref] = view.add(f"{ref[0].name}/{name}", "Cast", device, [ref], SrcT=source, DstT=to)
            placement.rows[casts[ref]] = row
        return casts[ref], 0

    for node in view.alive():  # a copy of the list: casts are added on the way, in the order of their uses
        down = set(types[node].inputs) if node in chosen else set[int]()
        for k, ref in enumerate(node.inputs):
            if (k in down) != (ref in bf16):
                device = node.device if k in down else ref[0].device
                node.inputs[k] = cast(ref, device, k in down)
    for node in chosen:
        for name in types[node].attrs:
            value = attr(node, name)
            if value.list.type:
                made = [BF16 if t == F32 else t for t in value.list.type]
                del node.proto.attr[name].list.type[:]
                node.proto.attr[name].list.type.extend(made)
            else:
                node.proto.attr[name].type = BF16
    return len(casts)
