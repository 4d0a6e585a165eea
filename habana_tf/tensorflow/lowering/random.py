"""Random ops with TensorFlow's own numbers: what a seed gives on the CPU it gives here.

Uniform numbers and integers are equal bit for bit; normals within a few units in the last place (another log, sin
and cos). Seeds, keys and counters are run-time inputs, only `shape` is fixed. Three families share the
distributions of `philox`:

    RandomUniform...            a Philox state in the kernel, from the attributes seed and seed2
    StatelessRandom...(V2)      a state made from the inputs (V1: seed; V2: counter and key)
    Stateful..., RngSkip...     a state in a variable, int64[3]: counter (two words), key
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from habana_tf.formulas import philox
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents, scalar_extent
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, INDEX, op

INTEGERS = (DType.I32, DType.I64, DType.U32, DType.U64)
PHILOX = 1
THREEFRY = 2

Draw = Callable[[Builder, Node, Extent, DType], Node]


def _result(c: Lowering, state: Node, draw: Draw | None) -> Node:
    """The draws of an op in its shape. draw: None for integers between its minval and maxval."""
    shape = extents(c, "shape")
    c.require(all(not isinstance(n, int) or n >= 0 for n in shape), f"shape {shape} must be non-negative")
    n = ext.product(shape)
    if draw is None:
        drawn = philox.integers_between(c.b, state, n, c.input("minval"), c.input("maxval"))
    else:
        drawn = draw(c.b, state, n, c.attr("Tout") or c.attr("dtype"))
    return c.b.reshape(drawn, shape)


def _check_algorithm(c: Lowering, algorithm: Node) -> None:
    """Refuses ThreeFry where the algorithm is known."""
    known = c.known(algorithm)
    if known is not None and int(known) == THREEFRY:
        raise c.error("the ThreeFry algorithm is not supported on HPU; use Philox")


# -- a state in the kernel ------------------------------------------------------------------------------------


def _own(draw: Draw | None) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        c.reserve(ext.mul(ext.product(extents(c, "shape")), philox.SAMPLES_PER_RESULT))
        return _result(c, c.state(), draw)

    return lower


_random = partial(op, fixed=("shape",), generic="random")
_random("RandomUniform", stateful_random=True, dtype=FLOATS)(_own(philox.uniform))
_random("RandomStandardNormal", stateful_random=True, dtype=FLOATS)(_own(philox.normal))
_random("TruncatedNormal", stateful_random=True, dtype=FLOATS)(_own(philox.truncated_normal))
_random("RandomUniformInt", stateful_random=True, Tout=INDEX)(_own(None))


# -- choices --------------------------------------------------------------------------------------------------


def _choices(c: Lowering, state: Node, rows: Extent, samples: Extent) -> Node:
    """[rows, samples]: classes drawn with the probabilities whose logarithms, up to a constant, are `logits`.

    The class is the first whose running sum of probabilities exceeds a uniform number; results follow each other in
    the stream. TensorFlow's CPU kernel sums in float64 (one draw in some million comes out differently), and when it
    shares many rows among threads, each thread begins at a place of its own in the stream.
    """
    b, logits = c.b, c.inputs[0]
    shape = (rows, samples, logits.shape[1])
    x = b.cast(logits, DType.F32)
    usable = b.map("isfinite", x)
    x = b.select(usable, x, b.const(float("-inf"), DType.F32))
    greatest = b.reshape(b.reduce("max", x, [1]), (rows, 1))
    part = b.select(usable, b.map("exp", b.binary("sub", x, greatest)), b.const(0, DType.F32))
    running = b.scan("sum", part, 1)
    total = b.reshape(b.reduce("max", running, [1]), (rows, 1))
    found = b.binary("mul", b.reshape(philox.uniform_53(b, state, ext.mul(rows, samples)), (rows, samples)), total)
    passed = b.map("le", b.broadcast_in_dim(running, shape, [0, 2]), b.broadcast_in_dim(found, shape, [0, 1]))
    return b.cast(b.reduce("sum", b.cast(passed, DType.I32), [2]), c.attr("output_dtype", DType.I64))


def _samples(c: Lowering) -> tuple[Extent, Extent]:
    logits = c.inputs[0]
    c.require(logits.rank == 2 and logits.shape[1] != 0, "logits must be [rows, classes] with at least one class")
    samples = scalar_extent(c, "num_samples")
    c.require(c.at_least(samples), f"num_samples must be non-negative, not {samples}")
    return logits.shape[0], samples


@op("Multinomial", fixed=("num_samples",), stateful_random=True, T=FLOATS, output_dtype=INDEX)
def multinomial(c: Lowering) -> Node:
    """Classes drawn from logits, the same as on the CPU as long as one thread does the work there."""
    rows, samples = _samples(c)
    groups = ext.div(ext.add(samples, 3), 4)
    c.reserve(ext.mul(ext.mul(rows, groups), 4 * 2 * philox.SAMPLES_PER_RESULT))
    return _choices(c, c.state(), rows, samples)


@op("StatelessMultinomial", fixed=("num_samples",), T=FLOATS, Tseed=INDEX, output_dtype=INDEX)
def stateless_multinomial(c: Lowering) -> Node:
    """Classes drawn from logits, the same as on the CPU as long as one thread does the work there."""
    rows, samples = _samples(c)
    counter, key = _of_seed(c)
    return _choices(c, philox.state_of(c.b, counter, key), rows, samples)


# -- a state from the inputs ----------------------------------------------------------------------------------


def _of_seed(c: Lowering) -> tuple[Node, Node]:
    """Counter and key that a stateless op makes of its seed."""
    seed = c.input("seed")
    c.require(seed.shape == (2,), "seed must be two numbers")
    return philox.scrambled(c.b, seed)


def _given(c: Lowering) -> Node:
    """The state of a stateless op: from seed (V1), or from counter and key (V2)."""
    if "seed" in c.arg_slices:
        counter, key = _of_seed(c)
        return philox.state_of(c.b, counter, key)
    counter, key = c.input("counter"), c.input("key")
    _check_algorithm(c, c.input("alg"))
    if key.shape != (1,) or counter.rank != 1 or counter.shape == (1,):
        raise c.error("key must have shape [1] and counter [2]; only the Philox algorithm is supported on HPU")
    return philox.state_of(c.b, c.b.slice(counter, (0,), (2,)), key)


def _stateless(draw: Draw | None) -> Callable[[Lowering], Node]:
    return lambda c: _result(c, _given(c), draw)


for _name, _draw in {
    "StatelessRandomUniform": philox.uniform, "StatelessRandomNormal": philox.normal,
    "StatelessTruncatedNormal": philox.truncated_normal,
}.items():  # fmt: skip
    _random(_name, f"{_name}V2", dtype=FLOATS)(_stateless(_draw))
_random("StatelessRandomUniformInt", dtype=INDEX)(_stateless(None))
_random("StatelessRandomUniformIntV2", dtype=INTEGERS)(_stateless(None))
_random("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", dtype=INTEGERS)(_stateless(philox.integers))


@op("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", Tseed=INDEX)
def key_and_counter(c: Lowering) -> list[Node]:
    counter, key = _of_seed(c)
    algorithm = [c.b.const(PHILOX, DType.I32)] if c.op.endswith("Alg") else []
    return [key, counter, *algorithm]


op("StatelessRandomGetAlg")(lambda c: c.b.const(PHILOX, DType.I32))


# -- a state in a variable ------------------------------------------------------------------------------------


def _advance(c: Lowering, results: Node) -> Node:
    """The new value of the state variable after `results` (a uint64 scalar) results."""
    words = _words(c)
    counter = philox.skip(c.b, c.b.slice(words, (0,), (2,)), results)
    after = philox.vector(c.b, [*counter, c.b.slice(words, (2,), (1,))])
    return c.b.map("bitcast", after, dtype=DType.I64)


def _words(c: Lowering) -> Node:
    """The state variable as uint64[3]."""
    state = c.input("resource")
    if state.shape != (3,) or state.dtype is not DType.I64:
        raise c.error("the generator's state must be int64[3]; only the Philox algorithm is supported on HPU")
    for name in {"alg", "algorithm"} & set(c.arg_slices):
        _check_algorithm(c, c.input(name))
    return c.b.map("bitcast", state, dtype=DType.U64)


op("RngReadAndSkip", host=("alg",), variables=("resource",), updates=("resource",))(
    lambda c: [_advance(c, c.input("delta")), c.input("resource")]
)
op("RngSkip", host=("algorithm",), variables=("resource",), updates=("resource",))(
    lambda c: _advance(c, c.b.map("bitcast", c.input("delta"), dtype=DType.U64))
)


def _of_variable(draw: Draw | None) -> Callable[[Lowering], Sequence[Node]]:
    def lower(c: Lowering) -> Sequence[Node]:
        words = _words(c)
        state = philox.state_of(c.b, c.b.slice(words, (0,), (2,)), c.b.slice(words, (2,), (1,)))
        n = ext.product(extents(c, "shape"))
        return [_advance(c, c.b.extent(n, DType.U64)), _result(c, state, draw)]

    return lower


_stateful = partial(op, fixed=("shape",), host=("algorithm",), variables=("resource",), updates=("resource",))
_stateful("StatefulUniform", dtype=FLOATS)(_of_variable(philox.uniform))
_stateful("StatefulStandardNormalV2", dtype=FLOATS)(_of_variable(philox.normal))
_stateful("StatefulTruncatedNormal", dtype=FLOATS)(_of_variable(philox.truncated_normal))
_stateful("StatefulUniformInt", dtype=INTEGERS)(_of_variable(None))
_stateful("StatefulUniformFullInt", dtype=INTEGERS)(_of_variable(philox.integers))
