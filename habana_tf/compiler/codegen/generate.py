"""Generates modules of LLVM IR for scheduled kernels: equal functions once, and each call with its buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code, FunctionCall
from habana_tf.compiler.codegen.emit import module
from habana_tf.compiler.codegen.equal_bodies import form, with_tensors
from habana_tf.compiler.codegen.loops import emit_loop
from habana_tf.compiler.codegen.merged_functions import merge, shape
from habana_tf.compiler.codegen.own_kernels import emit_single
from habana_tf.compiler.codegen.tiles.fused import emit_contraction, plain
from habana_tf.compiler.costs import LAST_KERNELS, ONE_OP_KERNELS, ONE_PRODUCT_COPIES, SMALL_MODULE
from habana_tf.compiler.schedule import Foreign, Repeated, Schedule
from habana_tf.hardware.cpu import Target
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class Generated:
    """The code of all kernels, one per kernel; a call's `name` is a function of one of the modules."""

    codes: tuple[Code, ...]
    functions: int


def generate(plan: Schedule, target: Target, add: Callable[[str], None], module_bytes: int) -> Generated:
    """Generates code for all kernels of a schedule. add: receives each module's text, as soon as it has `module_bytes`
    (less for the first and the last ones)."""
    attributes = f'"target-cpu"="{target.llvm_cpu}" "target-features"="{target.llvm_features}"'
    if target.vector_bytes == 64:
        attributes += ' "prefer-vector-width"="512" "min-legal-vector-width"="512"'
    functions = _Functions(add, attributes, module_bytes)
    by_itself = not any(isinstance(k, Repeated) for k in plan.kernels)
    compact = by_itself and (_one_product(plan) or _generic(plan))
    codes = []
    known: dict[Hashable, tuple[Code, list[Node]]] = {}
    kernels = list(plan.flat())
    for number, kernel in enumerate(kernels):
        functions.small |= number >= len(kernels) * (1 - LAST_KERNELS)
        if isinstance(kernel, Foreign):
            codes.append((_foreign(kernel), 0))
            continue
        what, tensors = form(kernel)
        if what not in known:
            known[what] = _emit(kernel, target, compact), tensors
        code = with_tensors(*known[what], tensors)
        for call in code.calls:
            functions.add(call, code.declarations)
        codes.append((replace(code, calls=()), len(code.calls)))
    functions.end()
    calls = iter(functions.calls)
    named = [replace(code, calls=tuple(islice(calls, count))) if count else code for code, count in codes]
    return Generated(tuple(named), len(functions.names))


def _foreign(kernel: Foreign) -> Code:
    """A call of a custom kernel in C. Unused outputs are temporaries, as is its workspace."""
    assert kernel.core is not None
    spec = kernel.spec
    temps: list[Extent] = []
    buffers: list[Node | tuple[str, int]] = [*kernel.core.src]
    for k, (dtype, sizes) in enumerate(spec.outputs):
        if k in kernel.results:
            buffers.append(kernel.results[k])
        else:
            buffers.append(("temp", len(temps)))
            temps.append(math.prod(sizes) * dtype.bytes)
    buffers.append(("temp", len(temps)))
    temps.append(spec.workspace)
    return Code((FunctionCall("", "", tuple(buffers), spec.items, 1, custom=spec),), frozenset(), tuple(temps))


class _Functions:
    """Collects the functions of a recipe in modules: equal ones once, consecutive ones of the same shape merged."""

    def __init__(self, module: Callable[[str], None], attributes: str, module_bytes: int) -> None:
        self.names: dict[str, str] = {}
        self.calls: list[FunctionCall] = []
        self._module, self._attributes, self._most = module, attributes, module_bytes
        self._alike: list[tuple[FunctionCall, str, frozenset[str]]] = []
        self._shape = ""
        self.small = True
        """Whether the next module is small."""
        self._texts: list[str] = []
        self._declarations: set[str] = set()
        self._size = 0

    def add(self, call: FunctionCall, declarations: frozenset[str]) -> None:
        """Adds the next call; its function is emitted once a function of another shape follows."""
        body = call.ir[call.ir.index("(") :]
        form = shape(body).text
        if form != self._shape:
            self._write()
        self._shape = form
        self._alike.append((call, body, declarations))

    def end(self) -> None:
        self._write()
        if self._texts or not self.names:
            self._flush()

    def _write(self) -> None:
        bodies = merge([body for _, body, _ in self._alike])
        for (call, _, declarations), (body, constants) in zip(self._alike, bodies, strict=True):
            name = self.names.get(body)
            if name is None:
                name = self.names[body] = f"k{len(self.names)}"
                self._texts.append(f"define void @{name}{body}")
                self._declarations |= declarations
                self._size += len(body)
            self.calls.append(replace(call, name=name, ir="", constants=constants))
        self._alike = []
        if self._size >= (self._most // SMALL_MODULE if self.small else self._most):
            self._flush()

    def _flush(self) -> None:
        self._module(module(self._texts, self._declarations, self._attributes))
        self._texts, self._declarations, self._size, self.small = [], set(), 0, False


def _one_product(plan: Schedule) -> bool:
    """Whether a program is a single product, as an eager op is: its caller waits for the compilation, so code is
    compact."""
    products = [k for k in plan.kernels if k.is_contraction]
    return len(products) == 1 and plain(products[0]) and len(plan.kernels) <= len(products) + ONE_PRODUCT_COPIES


def _generic(plan: Schedule) -> bool:
    """Whether a program is an eager op over symbolic sizes only: its code serves all sizes, and the first caller waits
    for it."""
    domains = [k.domain for k in plan.kernels if k.is_loop]
    sizes = [n for domain in domains for n in domain if isinstance(n, int)]
    return bool(domains) and len(plan.kernels) <= ONE_OP_KERNELS and all(n == 1 for n in sizes)


def _emit(body: Body, target: Target, compact: bool) -> Code:
    if body.is_contraction:
        # compact tiles overlap, which is wrong for epilogues that update in place (see `in_place`)
        return emit_contraction(body, "k", target, compact and plain(body) and not body.streamed)
    nodes = [*reading_order(body), *dict.fromkeys(body.outputs)]
    memory = {n: k for k, n in enumerate(nodes)}
    if body.is_loop:
        return emit_loop(body, "k", memory, nodes, target, compact)
    return emit_single(body, "k", memory, nodes, target)


def reading_order(body: Body) -> Sequence[Node]:
    """The tensors that a kernel only reads, in order of first use."""
    return [n for n in body.reads if n not in body.outputs]
