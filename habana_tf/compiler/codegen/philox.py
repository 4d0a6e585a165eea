"""The Philox-4x32-10 generator (Salmon et al., 2011) over a vector of consecutive blocks."""

from __future__ import annotations

from habana_tf.compiler.codegen.emit import Function, Value, everywhere, lane_numbers

_M = (0xD2511F53, 0xCD9E8D57)
_W = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def blocks(fn: Function, state: Value, first: Value, lanes: int, run: int, skip: int) -> list[Value]:
    """The four words of blocks first .. first + lanes - 1, a vector of lanes per word.

    state: pointer to uint32[6] (counter, key). Block j has the counter start + (j // run) * skip + j % run (128 bits).
    """
    t, wide = f"<{lanes} x i32>", f"<{lanes} x i64>"
    words = [fn.load("i32", fn.offset(state, "i32", str(k)), 4, invariant=True) for k in range(6)]

    def spread(value: Value, lane: str) -> Value:
        one = fn.op(f"insertelement <{lanes} x {lane}> poison, {lane} {value}, i64 0")
        return fn.op(
            f"shufflevector <{lanes} x {lane}> {one}, <{lanes} x {lane}> poison, <{lanes} x i32> zeroinitializer"
        )

    def all_lanes(value: int, lane: str) -> Value:
        return everywhere(lane, str(value))

    j = fn.op(f"add {wide} {spread(first, 'i64')}, {lane_numbers('i64', lanes)}")
    if run != 1 or skip != 1:
        group = fn.op(f"udiv {wide} {j}, {all_lanes(run, 'i64')}")
        rest = fn.op(f"urem {wide} {j}, {all_lanes(run, 'i64')}")
        start = fn.op(f"mul {wide} {group}, {all_lanes(skip, 'i64')}")
        j = fn.op(f"add {wide} {start}, {rest}")

    def pair(low: Value, high: Value) -> Value:
        a, b = fn.op(f"zext i32 {low} to i64"), fn.op(f"zext i32 {high} to i64")
        return fn.op(f"or i64 {a}, {fn.op(f'shl i64 {b}, 32')}")

    low = spread(pair(words[0], words[1]), "i64")
    high = spread(pair(words[2], words[3]), "i64")
    low_sum = fn.op(f"add {wide} {low}, {j}")
    carry = fn.op(f"zext <{lanes} x i1> {fn.op(f'icmp ult {wide} {low_sum}, {low}')} to {wide}")
    high_sum = fn.op(f"add {wide} {high}, {carry}")

    def halves(value: Value) -> tuple[Value, Value]:
        top = fn.op(f"lshr {wide} {value}, {all_lanes(32, 'i64')}")
        return fn.op(f"trunc {wide} {value} to {t}"), fn.op(f"trunc {wide} {top} to {t}")

    c = [*halves(low_sum), *halves(high_sum)]
    key = [spread(words[4], "i32"), spread(words[5], "i32")]
    with fn.loop("0", str(_ROUNDS), 1, [(t, x) for x in (*c, *key)]) as turns:  # ten times the code takes LLVM long
        c, key = turns.carried[:4], turns.carried[4:]
        products = []
        for word, m in ((c[0], _M[0]), (c[2], _M[1])):
            x = fn.op(f"zext {t} {word} to {wide}")
            products.append(halves(fn.op(f"mul {wide} {x}, {all_lanes(m, 'i64')}")))
        (low0, high0), (low1, high1) = products
        turns.next = [
            fn.op(f"xor {t} {fn.op(f'xor {t} {high1}, {c[1]}')}, {key[0]}"),
            low1,
            fn.op(f"xor {t} {fn.op(f'xor {t} {high0}, {c[3]}')}, {key[1]}"),
            low0,
            *(
                fn.op(f"add {t} {k}, {all_lanes(w - (1 << 32) if w >> 31 else w, 'i32')}")
                for k, w in zip(key, _W, strict=True)
            ),
        ]
    return turns.results[:4]
