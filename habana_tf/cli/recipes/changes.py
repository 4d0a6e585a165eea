"""The difference of two values of a key part, in a short line."""

from __future__ import annotations

from habana_tf.cli.output import tensor
from habana_tf.cli.recipes.common import plain

_LONG = 80
_MOST_LINES = 8
WHAT = frozenset({"cluster", "program"})
"""Parts that say what is computed: where they differ, the other parts compare apples and pears."""

CUSTOM = "custom ops"
"""The part with the digests of the lowerings and kernels that the program brings."""


def changes(part: str, left: object, right: object) -> list[str]:
    """Lines such as "input 2: float32[64,8] -> float32[5,8]". left, right: JSON data, None for a side without it."""
    if part in WHAT:
        return [f"another {part}"]
    if part == CUSTOM:
        lines = _of_lowerings(left, right)
    elif isinstance(left, list) and isinstance(right, list):
        lines = _of_lists("input" if part == "inputs" else "item", left, right)
    elif isinstance(left, str) and isinstance(right, str) and "," in left and "," in right:
        lines = _of_words(left.split(","), right.split(","))
    else:
        lines = [f"{_short(left)} -> {_short(right)}"]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more} more"]


def _of_lists(what: str, left: list[object], right: list[object]) -> list[str]:
    pairs = [(k, _item(a), _item(b)) for k, (a, b) in enumerate(zip(left, right, strict=False))]
    lines = [f"{what} {k}: {a} -> {b}" for k, a, b in pairs if a != b]
    if len(left) != len(right):
        lines.append(f"{len(left)} {what}s -> {len(right)}")
    return lines or ["fixed sizes -> a range of sizes"]


def _of_lowerings(left: object, right: object) -> list[str]:
    """Of the ops that the program brings, [op, digest] each."""
    one, other = ({str(op): digest for op, digest in each} if isinstance(each, list) else {} for each in (left, right))
    lines = []
    for op in {**one, **other}:
        if op in one and op in other and one[op] != other[op]:
            lines.append(f"another lowering or kernel of {op}")
        elif op not in one or op not in other:
            lines.append(f"a lowering or kernel of the program's for {op}, or none")
    return lines


def _of_words(left: list[str], right: list[str]) -> list[str]:
    """Of features of a CPU, the new ones and those that are gone; a feature turned off is a word of its own."""
    gone, new = sorted({*left} - {*right}), sorted({*right} - {*left})
    if not gone and not new:
        return ["the same in another order"]
    return [
        _short(f"{which}: {' '.join(words)}") for which, words in (("only left", gone), ("only right", new)) if words
    ]


def _item(value: object) -> str:
    """An input of the key, ["float32", [64, 8]], as float32[64,8]."""
    match value:
        case [str() as dtype, list() as shape]:
            return tensor({"dtype": dtype, "shape": shape})
    return _short(value)


def _short(value: object) -> str:
    text = "(not there)" if value is None else plain(value)
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."
