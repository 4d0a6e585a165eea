"""Emits LLVM IR as text, one function at a time, with structured loops.

Text takes microseconds per instruction, and kernels can be compared as strings. Every kernel has the runtime's
signature:

    void kernel(ptr %bufs, ptr %dims, i64 %begin, i64 %end)

A value is the name of an SSA register or a literal; its type is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

Value = str

BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "bfloat": 2, "float": 4, "double": 8}
"""Size of an element in memory by its LLVM type."""


ZEROS = "zeroinitializer"
"""The vector of zeros."""


def suffix(lane: str) -> str:
    """The suffix of an LLVM type in names of intrinsics."""
    return {"float": "f32", "double": "f64", "bfloat": "bf16", "half": "f16"}.get(lane, lane)


def first_lanes(lanes: int, active: int) -> Value:
    """The constant mask of the first `active` lanes."""
    return "<" + ", ".join(f"i1 {int(k < active)}" for k in range(lanes)) + ">"


def lane_numbers(type_: str, lanes: int, stride: int = 1, start: int = 0) -> Value:
    """The constant vector start, start + stride, ..."""
    return "<" + ", ".join(f"{type_} {start + k * stride}" for k in range(lanes)) + ">"


def everywhere(type_: str, number: Value) -> Value:
    """The constant vector with the same number in every lane."""
    return f"splat ({type_} {number})"


@dataclass
class EmittedLoop:
    """A loop being emitted: its counter, the carried values, and (set by the body) their next values."""

    index: Value
    carried: list[Value]
    next: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


_FENCE = "llvm.x86.sse.sfence"
"""Ends a function that stored past the caches, which targets of x86 do (`Target.stores_past_caches`): other threads may
see such a store after the flag that says it is there."""


class Function:
    """One kernel under construction. bf16: the CPU rounds to bfloat16 in one instruction; rounded: where it does not,
    float registers that were rounded or loaded, which storing need not round. masks_halves: the CPU loads some lanes of
    8 or 16 bits in one instruction; float16: it converts those (see `Target`)."""

    def __init__(self, name: str, bf16: bool = False, masks_halves: bool = False, float16: bool = False) -> None:
        self.name = name
        self.bf16 = bf16
        self.masks_halves = masks_halves
        self.float16 = float16
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._registers = 0
        self._blocks = 0
        self.block = "entry"
        self._fenced = False
        self._zero_bytes = 0
        self.rounded: set[Value] = set()

    # -- straight-line code ---------------------------------------------------------------------------------

    def op(self, text: str) -> Value:
        """An instruction with a result."""
        self._registers += 1
        name = f"%v{self._registers}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def call(self, result: str, name: str, *args: tuple[str, Value]) -> Value:
        """A call of an intrinsic or library function, declared on the way; args are (type, value)."""
        self.declarations.add(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.op(text)

    def load(self, type_: str, pointer: Value, align: int, invariant: bool = False) -> Value:
        tail = ", !invariant.load !0" if invariant else ""
        return self.op(f"load {type_}, ptr {pointer}, align {align}{tail}")

    def store(self, type_: str, value: Value, pointer: Value, align: int) -> None:
        self.do(f"store {type_} {value}, ptr {pointer}, align {align}")

    def store_past_caches(self, type_: str, value: Value, pointer: Value, nbytes: int) -> None:
        """A non-temporal store of an aligned vector of 32 or 64 bytes; a fence ends the function."""
        self.do(f"store {type_} {value}, ptr {pointer}, align {nbytes}, !nontemporal !1")
        self.declarations.add(f"declare void @{_FENCE}()")
        self._fenced = True

    def branches(self, lane: str) -> bool:
        """Whether LLVM makes a branch of each lane under a mask that is not constant. A vector with all lanes is worth
        a test of its own then."""
        return lane in ("i8", "i16") and not self.masks_halves

    def masked_load(self, lane: str, lanes: int, pointer: Value, mask: Value | None) -> Value:
        """Loads a vector; lanes outside the mask (if any) are not accessed and are zeros."""
        if mask is None:
            return self.load(f"<{lanes} x {lane}>", pointer, BYTES[lane])
        some = partial(self._masked_load, lane, lanes, pointer, mask)
        if not mask.startswith("%") or not self.branches(lane):
            return some()
        every = self.op(f"icmp eq i{lanes} {self.op(f'bitcast <{lanes} x i1> {mask} to i{lanes}')}, -1")
        vector = f"<{lanes} x {lane}>"
        return self.choice(every, vector, partial(self.load, vector, pointer, BYTES[lane]), some)

    def load_if(self, condition: Value, lane: str, lanes: int, pointer: Value) -> Value:
        """A vector from memory if a condition (i1) holds, else zeros; without a branch, which would be mispredicted
        where the condition changes from point to point."""
        self._zero_bytes = max(self._zero_bytes, lanes * BYTES[lane])
        at = self.op(f"select i1 {condition}, ptr {pointer}, ptr %zeros")
        return self.load(f"<{lanes} x {lane}>", at, BYTES[lane])

    def _masked_load(self, lane: str, lanes: int, pointer: Value, mask: Value) -> Value:
        vector, bits = f"<{lanes} x {lane}>", f"<{lanes} x i1>"
        name = f"llvm.masked.load.v{lanes}{suffix(lane)}.p0"
        self.declarations.add(f"declare {vector} @{name}(ptr, {bits}, {vector})")
        at = f"ptr align {BYTES[lane]} {pointer}"
        return self.op(f"call {vector} @{name}({at}, {bits} {mask}, {vector} zeroinitializer)")

    def masked_store(self, lane: str, lanes: int, value: Value, pointer: Value, mask: Value | None) -> None:
        """Stores a vector's lanes within the mask, or all."""
        vector, bits = f"<{lanes} x {lane}>", f"<{lanes} x i1>"
        if mask is None:
            self.store(vector, value, pointer, BYTES[lane])
            return
        if mask == first_lanes(lanes, 1):
            # LLVM 22 for AVX-512 turns a truncation and a one-lane masked store into a store of the wide element.
            self.store(lane, self.op(f"extractelement {vector} {value}, i64 0"), pointer, BYTES[lane])
            return
        name = f"llvm.masked.store.v{lanes}{suffix(lane)}.p0"
        self.declarations.add(f"declare void @{name}({vector}, ptr, {bits})")
        self.do(f"call void @{name}({vector} {value}, ptr align {BYTES[lane]} {pointer}, {bits} {mask})")

    def gather(self, lane: str, lanes: int, pointers: Value, mask: Value) -> Value:
        """Loads an element from each lane's pointer; lanes outside the mask are zeros."""
        vector, bits, address = f"<{lanes} x {lane}>", f"<{lanes} x i1>", f"<{lanes} x ptr>"
        name = f"llvm.masked.gather.v{lanes}{suffix(lane)}.v{lanes}p0"
        self.declarations.add(f"declare {vector} @{name}({address}, {bits}, {vector})")
        at = f"{address} align {BYTES[lane]} {pointers}"
        return self.op(f"call {vector} @{name}({at}, {bits} {mask}, {vector} zeroinitializer)")

    def scatter(self, lane: str, lanes: int, value: Value, pointers: Value, mask: Value) -> None:
        """Stores an element to each lane's pointer."""
        vector, bits, address = f"<{lanes} x {lane}>", f"<{lanes} x i1>", f"<{lanes} x ptr>"
        name = f"llvm.masked.scatter.v{lanes}{suffix(lane)}.v{lanes}p0"
        self.declarations.add(f"declare void @{name}({vector}, {address}, {bits})")
        self.do(f"call void @{name}({vector} {value}, {address} align {BYTES[lane]} {pointers}, {bits} {mask})")

    def prefetch(self, pointer: Value, level: int = 1) -> None:
        """Prefetches a cache line, of any address, into a level of the caches."""
        self.call("void", "llvm.prefetch.p0", ("ptr", pointer), ("i32", "0"), ("i32", str(4 - level)), ("i32", "1"))

    def offset(self, pointer: Value, element: str, index: Value) -> Value:
        """The address of element `index` (i64)."""
        return pointer if index == "0" else self.op(f"getelementptr inbounds {element}, ptr {pointer}, i64 {index}")

    def ptradd(self, pointer: Value, nbytes: Value | int) -> Value:
        """The address `nbytes` after a pointer."""
        return pointer if str(nbytes) == "0" else self.op(f"getelementptr i8, ptr {pointer}, i64 {nbytes}")

    def splat(self, lanes: int, type_: str, value: Value) -> Value:
        """A vector with `value` in every lane."""
        if lanes == 1:
            return value
        if not value.startswith("%"):
            return everywhere(type_, value)
        vector = f"<{lanes} x {type_}>"
        one = self.op(f"insertelement {vector} poison, {type_} {value}, i64 0")
        return self.op(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def leading(self, lanes: int, left: Value) -> Value:
        """The mask of the first `left` (i64) lanes. With AVX-512 made from bits: LLVM would repeat a vector comparison
        at each use and keep its operands in registers."""
        if lanes < 16:
            some = self.splat(lanes, "i32", self.op(f"trunc i64 {left} to i32"))
            return self.op(f"icmp slt <{lanes} x i32> {lane_numbers('i32', lanes)}, {some}")
        some = self.op(f"select i1 {self.less(left, '0')}, i64 0, i64 {self.minimum(left, str(lanes))}")
        bits = self.add(self.op(f"shl i64 1, {some}"), -1)
        return self.op(f"bitcast i{lanes} {self.op(f'trunc i64 {bits} to i{lanes}')} to <{lanes} x i1>")

    def add(self, a: Value | int, b: Value | int) -> Value:
        return self._integer("add", a, b)

    def sub(self, a: Value | int, b: Value | int) -> Value:
        return self._integer("sub", a, b)

    def mul(self, a: Value | int, b: Value | int) -> Value:
        return self._integer("mul", a, b)

    def div(self, a: Value | int, b: Value | int) -> Value:
        """Unsigned division."""
        return self._integer("udiv", a, b)

    def rem(self, a: Value | int, b: Value | int) -> Value:
        """Unsigned remainder."""
        return self._integer("urem", a, b)

    def _integer(self, fn: str, a: Value | int, b: Value | int) -> Value:
        """i64 arithmetic with constant folding."""
        a, b = str(a), str(b)
        if _literal(a) and _literal(b):
            x, y = int(a), int(b)
            folded = {"add": x + y, "sub": x - y, "mul": x * y}.get(fn)
            if folded is None and x >= 0 and y > 0:
                folded = {"udiv": x // y, "urem": x % y}.get(fn)
            if folded is not None:
                return str(folded)
        if (fn in ("add", "sub") and b == "0") or (fn in ("mul", "udiv", "sdiv") and b == "1"):
            return a
        if fn == "add" and a == "0" or fn == "mul" and a == "1":
            return b
        return self.op(f"{fn}{' nsw' if fn in ('add', 'sub', 'mul') else ''} i64 {a}, {b}")

    def less(self, a: Value, b: Value) -> Value:
        return self.op(f"icmp slt i64 {a}, {b}")

    def minimum(self, a: Value, b: Value) -> Value:
        return self.op(f"select i1 {self.less(a, b)}, i64 {a}, i64 {b}")

    # -- control flow ---------------------------------------------------------------------------------------

    def new_block(self, hint: str) -> str:
        self._blocks += 1
        return f"{hint}{self._blocks}"

    def start(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    def branch(self, block: str) -> None:
        self.do(f"br label %{block}")

    @contextmanager
    def loop(
        self, start: Value, stop: Value, step: int = 1, carry: Sequence[tuple[str, Value]] = ()
    ) -> Iterator[EmittedLoop]:
        """for index = start; index < stop; index += step. The body sets `next`, one value per carried value;
        afterwards `results` holds the final ones."""
        head, body, done = (self.new_block(h) for h in ("head", "body", "done"))
        before = self.block
        self.branch(head)
        self.start(head)
        index = self.op("phi")
        index_line = len(self.lines) - 1
        phis = [self.op("phi") for _ in carry]
        test = self.op(f"icmp slt i64 {index}, {stop}")
        self.do(f"br i1 {test}, label %{body}, label %{done}")
        self.start(body)
        loop = EmittedLoop(index, phis)
        yield loop
        following = self.op(f"add nsw i64 {index}, {step}")
        self.branch(head)
        self.lines[index_line] = f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{self.block} ]"
        if len(loop.next) != len(phis):
            raise AssertionError(f"{self.name}: loop carries {len(phis)} values, body set {len(loop.next)}")
        for k, ((type_, first), phi, nxt) in enumerate(zip(carry, phis, loop.next, strict=True)):
            text = f"  {phi} = phi {type_} [ {first}, %{before} ], [ {nxt}, %{self.block} ]"
            self.lines[index_line + 1 + k] = text
        self.start(done)
        loop.results = phis

    def choice(self, condition: Value, type_: str, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """The value that one of two pieces of code comes to."""
        first, second, after = (self.new_block(hint) for hint in ("yes", "no", "after"))
        self.do(f"br i1 {condition}, label %{first}, label %{second}")
        ends = []
        for block, code in ((first, yes), (second, no)):
            self.start(block)
            ends.append(f"[ {code()}, %{self.block} ]")
            self.branch(after)
        self.start(after)
        return self.op(f"phi {type_} {', '.join(ends)}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """The body runs only if `condition` (i1) holds."""
        inside, after = self.new_block("then"), self.new_block("after")
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        yield
        self.branch(after)
        self.start(after)

    def buffer(self, index: int) -> Value:
        """The base pointer of the kernel's buffer number `index`."""
        slot = self.offset("%bufs", "ptr", str(index))
        return self.op(f"load ptr, ptr {slot}, align 8, !invariant.load !0, !nonnull !0")

    def dim(self, index: int) -> Value:
        """The value of symbolic extent `index`."""
        slot = self.offset("%dims", "i64", str(index))
        return self.load("i64", slot, 8, invariant=True)

    def text(self) -> str:
        """The function's definition. The body is independent of the name, so that equal kernels have equal bodies."""
        return f"define void @{self.name}(ptr noalias %bufs, ptr noalias %dims, i64 %begin, i64 %end) #0 " + self.body()

    def body(self) -> str:
        fence = f"  call void @{_FENCE}()\n" if self._fenced else ""
        room = f"<{self._zero_bytes} x i8>"
        zeros = f"  %zeros = alloca {room}\n  store {room} {ZEROS}, ptr %zeros\n" if self._zero_bytes else ""
        return f"{{\nentry:\n{zeros}" + "\n".join(self.lines) + f"\n{fence}  ret void\n}}\n"


def module(functions: Sequence[str], declarations: set[str], attributes: str) -> str:
    """One module of function definitions."""
    header = "\n".join(sorted(declarations))
    tail = f"attributes #0 = {{ nounwind {attributes} }}\n!0 = !{{}}\n!1 = !{{i32 1}}\n"
    return f"{header}\n\n" + "\n".join(functions) + tail


def _literal(text: str) -> bool:
    return text.lstrip("-").isdigit()
