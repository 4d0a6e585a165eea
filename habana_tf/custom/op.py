"""`custom_op`: a lowering that a program brings, for an op of its own or for one of TensorFlow's.

    @habana_tf.custom_op("ScaledSwish", inputs="x: T", outputs="y: T", attrs={"beta": 1.0}, T=FLOATS, shapes="x")
    def scaled_swish(c):
        x = wrap(c.b, c.inputs[0])
        return (x * (x * c.attr("beta")).map("sigmoid")).done(c.inputs[0].dtype)

    y = scaled_swish(x, beta=1.5)

What: the op gets a row in the op table, as the ops that come with habana_tf have one (`tensorflow.lowering.row`), an
OpDef and kernels for HPU in TensorFlow. All else follows: placement, clusters, fusion, bf16, eager execution,
predictions.

Defined before `load_habana_module()` it is registered then, and else at once. Defined again (a cell of a notebook) the
new lowering takes the place of the old one, and every launch that used it is compiled anew. TensorFlow forgets no op:
what it takes and gives must stay as it was.

Invariants: definitions over which TensorFlow would end the process are refused (`signature`). A lowering's content is
in the keys of all recipes that it has a part in (`content`), read when a key is made, not when the op is defined.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from habana_tf.custom import shapes as declared
from habana_tf.custom import signature as signatures
from habana_tf.custom.checked import checked
from habana_tf.custom.content import digest
from habana_tf.custom.signature import CustomOpError, OpSignature
from habana_tf.hardware import device_state
from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.facts import opdefs, table_kernels
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import CUSTOM, ROWS, Bf16List, Generic, Lower, Row

_lock = threading.RLock()
_DEFINED: dict[str, CustomOp] = {}
"""By op, in the order of their definitions."""


@dataclass(eq=False)
class CustomOp:
    """An op with a lowering of the program's. Call it as the ops of `tf.raw_ops`, or with arguments by position.

    op: its name. lowering: the function as it was defined. signature: of a new op; None for one of TensorFlow's.
    """

    op: str
    lowering: Callable[..., Any]
    signature: OpSignature | None
    row: Row
    shapes: declared.Shapes = ()
    version: str | None = None
    says: Callable[[], str] | None = None
    registered: bool = field(default=False, init=False)
    autograph_info__: ClassVar[str] = "autograph must not convert this"
    """Autograph leaves alone what has it."""

    @property
    def __name__(self) -> str:
        return getattr(self.lowering, "__name__", self.op)

    def content(self) -> str:
        """What its lowering computes, as a digest. Raises CustomOpError where that cannot be told."""
        return self.says() if self.says is not None else digest(self.lowering, self.version)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the op, or adds it to the graph at hand: inputs and attributes as its signature names them, and `name`.

        Raises RuntimeError where HPU is not loaded: no other device has a kernel for it.
        """
        if not self.registered:
            raise RuntimeError(
                f"custom op {self.op!r} is TensorFlow's once HPU is loaded: call load_habana_module() first"
            )
        out = self._call(*args, **kwargs)
        if self.signature is not None:
            from habana_tf.custom.static_shapes import refine

            refine(self.row, out)
        return out

    @cached_property
    def _call(self) -> Callable[..., Any]:
        import tensorflow as tf

        if self.signature is None:
            found: Callable[..., Any] = getattr(tf.raw_ops, self.op)
            return found
        return opdefs.python_function(self.op)


def custom_op(
    op: str,
    *,
    inputs: str | Sequence[str] | None = None,
    outputs: str | Sequence[str] | None = None,
    attrs: str | Mapping[str, Any] = "",
    shapes: str | Sequence[str] | None = None,
    fixed: Sequence[str] = (),
    elementwise: bool = False,
    bf16: Bf16List | None = None,
    version: str | None = None,
    **types: Sequence[DType],
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Makes an op of a lowering: a function of a `habana_tf.tensorflow.lowering.lowering.Lowering` that gives one node
    per output.

    op: its name. inputs, outputs: "x: T, y: float" (see `custom.signature`); without them `op` is one of TensorFlow's,
    which HPU gets, or gets another lowering for. attrs: {"beta": 1.0}, or {"axis": int} for one without a default.
    T=FLOATS and the like: the element types that a type attribute may have.
    shapes: of the outputs, "x[:-1], 4" (see `custom.shapes`); without it TensorFlow knows them only in graphs that
    Python makes. fixed: inputs whose values fix an output's shape. elementwise: of numbers at one place; eager calls
    then share one recipe over all shapes. bf16: the list of the built-in configurations of TF_BF16_CONVERSION that the
    op is in; a configuration of the user's names it itself. version: says what the lowering depends on where its
    content cannot be told.

    Raises CustomOpError for what cannot be defined so.
    """
    if (inputs is None) != (outputs is None):
        raise CustomOpError(f"custom op {op!r}: inputs= and outputs= go together; an op of TensorFlow's has neither")
    if bf16 not in (None, "allow", "conditional", "strict"):
        raise CustomOpError(f"custom op {op!r}: bf16={bf16!r} is not a list; there are allow, conditional and strict")

    def defined(lower: Callable[..., Any]) -> CustomOp:
        if not callable(lower):
            raise CustomOpError(f"custom op {op!r}: {lower!r} is not a function")
        options = OpOptions(tuple(fixed), elementwise, bf16, version)
        if inputs is None or outputs is None:
            if attrs or shapes is not None:
                raise CustomOpError(
                    f"custom op {op!r}: attrs= and shapes= are those of a new op, with inputs=, outputs="
                )
            made = lower_existing(op, lower, types, options)
        else:
            signature = signatures.read(op, inputs, outputs, attrs, types)
            made = make(signature, declared.read(signature, shapes), lower, options)
        define([made])
        return made

    return defined


@dataclass(frozen=True)
class OpOptions:
    """See `custom_op`. says: the content of a lowering that is no Python."""

    fixed: tuple[str, ...] = ()
    elementwise: bool = False
    bf16: Bf16List | None = None
    version: str | None = None
    says: Callable[[], str] | None = None


def make(signature: OpSignature, shapes: declared.Shapes, lower: Callable[..., Any], options: OpOptions) -> CustomOp:
    """An op that TensorFlow has not, not defined yet (`define`). Raises CustomOpError."""
    _check_fixed(signature.op, options.fixed, signature.inputs)
    row = _row(signature.op, checked(lower, shapes), signature.types, options)
    return CustomOp(signature.op, lower, signature, row, shapes, options.version, options.says)


def lower_existing(
    op: str, lower: Callable[..., Any], types: Mapping[str, Sequence[DType]], options: OpOptions
) -> CustomOp:
    """A lowering for an op of TensorFlow's, not defined yet (`define`). Raises CustomOpError."""
    chosen = signatures.chosen_types(op, types)
    base, mine = ROWS.get(op), checked(lower)
    if base is None:
        row = _row(op, mine, chosen, options)
    else:
        row = replace(_instead(base, mine, chosen, options), lower=_either(base.lower, mine, chosen))
    return CustomOp(op, lower, None, row, (), options.version, options.says)


def _row(op: str, lower: Lower, types: dict[str, tuple[DType, ...]], options: OpOptions) -> Row:
    generic: Generic | None = "elementwise" if options.elementwise else None
    return Row(op, lower, types, fixed=options.fixed, generic=generic, bf16=options.bf16)


def _instead(base: Row, lower: Lower, types: dict[str, tuple[DType, ...]], options: OpOptions) -> Row:
    """Our row with a lowering of the program's in it. Its kernels are registered, so what they are made from stays."""
    if options.fixed:
        raise CustomOpError(
            f"custom op {base.op!r}: HPU has this op, with the fixed inputs {list(base.fixed)}; leave out fixed="
        )
    for name, allowed in types.items():
        more = [d.label for d in allowed if d not in base.types.get(name, ())]
        if more:
            have = signatures.type_names(base.types.get(name, ()))
            raise CustomOpError(f"custom op {base.op!r}: HPU has this op for {name} in {have or 'no type'}, not {more}")
    generic: Generic | None = "elementwise" if options.elementwise else None
    return replace(base, lower=lower, generic=generic, bf16=options.bf16)


def _either(ours: Lower, theirs: Lower, types: Mapping[str, Sequence[DType]]) -> Lower:
    """The program's lowering for the types it names, ours for the others."""

    def lower(c: Lowering) -> Any:
        named = all(c.attr(name) in allowed for name, allowed in types.items())
        return (theirs if named else ours)(c)

    return lower


def define(ops: Sequence[CustomOp]) -> None:
    """Puts ops into the table, in the place of earlier ones, and registers them if HPU is loaded. Raises CustomOpError
    for one that cannot be, and then defines none of them."""
    for made in ops:
        made.row = replace(made.row, content=made.content)
        made.content()  # what cannot be told is an error here, where the program defines it
    with _lock:
        again = False
        for k, made in enumerate(ops):
            if any(made.op == other.op for other in ops[:k]):
                raise CustomOpError(f"custom op {made.op!r} is there twice")
            _check_definition(made)
        for made in ops:
            before = _DEFINED.get(made.op)
            if device_state.is_loaded():
                _register(made)
            _DEFINED[made.op] = made
            CUSTOM[made.op] = made.row
            again |= before is not None or made.signature is None
        if again:
            _forget()


def _check_definition(made: CustomOp) -> None:
    """Raises CustomOpError for an op that cannot be defined, or not registered where HPU is loaded."""
    before = _DEFINED.get(made.op)
    if before is not None and before.signature != made.signature:
        raise CustomOpError(
            f"custom op {made.op!r} is defined already, and takes or gives something else: TensorFlow keeps an op "
            "as it was registered. Start Python anew, or give it another name"
        )
    if before is not None and (before.shapes, before.row.fixed) != (made.shapes, made.row.fixed):
        raise CustomOpError(
            f"custom op {made.op!r} is defined already, with other shapes= or fixed=, which TensorFlow keeps: "
            "start Python anew, or give it another name"
        )
    if device_state.is_loaded():
        _check_registration(made)


def register_all() -> None:
    """Registers what was defined before HPU was loaded. Raises CustomOpError for one that cannot be, and forgets it:
    the program may define it otherwise and load again."""
    with _lock:
        for made in tuple(_DEFINED.values()):
            try:
                _register(made)
            except CustomOpError:
                del _DEFINED[made.op], CUSTOM[made.op]
                raise


def _check_registration(made: CustomOp) -> None:
    """Raises CustomOpError for an op that TensorFlow would not take."""
    known = opdefs.facts(made.op)
    if made.signature is not None and made.op not in _REGISTERED:
        if known is not None:
            raise CustomOpError(
                f"custom op {made.op!r}: TensorFlow has an op of this name. Leave out inputs= and outputs= to give it "
                "a lowering, or choose another name"
            )
    elif made.signature is None:
        if known is None:
            raise CustomOpError(
                f"custom op {made.op!r}: TensorFlow has no op of this name; a new one needs inputs= and outputs="
            )
        if made.op not in ROWS and (known.stateful or known.handles() or known.calls_functions()):
            raise CustomOpError(
                f"custom op {made.op!r} has a state or calls functions: no lowering can say what it does"
            )
        _wanted_kernels(made)


def _register(made: CustomOp) -> None:
    """Gives TensorFlow the op, if it is new, and the kernels that HPU has not yet. Raises CustomOpError."""
    from habana_tf._native import _bridge

    _check_registration(made)
    if made.signature is not None and made.op not in _REGISTERED:
        shapes = [None if parts is None else [part.native() for part in parts] for parts in made.shapes]
        _bridge.register_op(made.op, *made.signature.texts(), shapes)
        _REGISTERED.add(made.op)
        opdefs.forget(made.op)
    if made.op not in ROWS:
        _register_kernels(made)
    made.registered = True


_REGISTERED: set[str] = set()
"""New ops that TensorFlow has."""


def _register_kernels(made: CustomOp) -> None:
    from habana_tf._native import _bridge

    wanted = _wanted_kernels(made)
    own = [k for k in opdefs.kernels(made.op, "HPU") if k.priority != opdefs.STAND_IN]
    taken = (*own, *opdefs.kernels(made.op, "DEFAULT"))
    _check_fixed(made.op, made.row.fixed, opdefs.known(made.op).inputs)
    rows = []
    for each in wanted:
        types = dict(each.types)
        if not any(all(types.get(name) in allowed for name, allowed in k.types) for k in taken):
            rows.append((each.op, list(each.types), list(each.host), "op"))
    _bridge.register_kernels(rows)
    opdefs.forget(made.op)


def _wanted_kernels(made: CustomOp) -> list[table_kernels.TableKernel]:
    """The kernels that an op asks for. Raises CustomOpError for types that it cannot have."""
    try:
        return table_kernels.of_row(made.row)
    except ValueError as why:
        raise CustomOpError(f"custom op {made.op!r}: {why}") from why


def _check_fixed(op: str, fixed: Sequence[str], inputs: Sequence[Any]) -> None:
    if missing := set(fixed) - {arg.name for arg in inputs}:
        raise CustomOpError(f"custom op {op!r}: fixed= names {sorted(missing)}, which are not inputs")


def _forget() -> None:
    """Drops everything that was compiled from an earlier lowering."""
    if device_state.is_loaded():
        from tensorflow.python.eager import context

        from habana_tf._native import _bridge

        _bridge.forget_programs()
        context.context().clear_kernel_cache()  # functions are placed anew: HPU may have had no such op
