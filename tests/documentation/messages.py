"""Every error and warning of habana_tf that its users may meet, found in the sources, and the entry that explains it.

Found are: what `raise` makes, in the words of its text with `…` for what differs each time; what the logger says as a
warning or worse; and what native code reports. Left out, with the reason below, are exceptions that another message
takes in, and Python's own exceptions where they check the code of this package and not a program's.

An entry of docs/troubleshooting.md is a heading, a block of messages with `…` in the same sense, then cause and remedy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
ANY = "…"

TAKEN_IN = {
    "ArgumentTypeError": "argparse prints it behind the option that it is about",
    "CodeError": "of a stored recipe: 'the stored recipe of … is not used'",
    "CycleError": "of the graph pass, which leaves such a graph to TensorFlow",
    "EntryError": "of a file in the cache: 'recipe cache …', and in what `habana-tf recipes verify` lists",
    "KnownFailure": "of a cluster that could not be compiled before: 'cannot be compiled'",
    "Left": "why a loop is not in a launch: a reason of the placement report",
    "LockUnavailable": "of the cache's directory: 'recipe cache …'",
    "NeedsNumber": "a size has to be known: the recipe is compiled for the numbers at hand",
    "NeverEnds": "of a collective, which fails with it: 'DistBackendError: hccl: …'",
    "NotRecorded": "of a PyTorch overload: '… runs on the CPU: …'",
    "RecipeError": "of a stored recipe: 'the stored recipe of … is not used'",
    "ShapeError": "of a lowering, whose op and node are named around it: 'arguments that the op refuses'",
    "StaleRecipe": "of a stored recipe: 'the stored recipe of … is not used'",
    "TooLarge": "made into TensorFlow's ResourceExhaustedError: 'HPU:0 is out of memory'",
    "Unfit": "the compiler takes another way",
    "Unsaid": "of a rank of a job that does not exist: the rank that says it runs before",
    "UnfitPlan": "of a product's plan that somebody changed by hand (docs/architecture.md)",
    "Unreadable": "of the graph pass: the reason UNREADABLE of the placement report",
    "WorkerFailed": "'a compiler process failed'",
    "_Reached": "how `habana-tf predict` ends a script at its first fit; caught there",
}
"""Exceptions that reach a user within another message, or not at all."""
PYTHONS = {"AssertionError", "AttributeError", "FileNotFoundError", "ImportError", "IndexError", "KeyError", "OSError",
           "SyntaxError", "TypeError", "ValueError"}  # fmt: skip
OF_OUR_CODE = (
    "cache", "card/timeline", "cluster", "compiler", "custom/shapes", "custom/signature", "hardware/chips",
    "hardware/calibration", "ir", "launcher/agent", "resolver", "settings", "tensorflow/changes/keras2",
    "tensorflow/clusters", "tensorflow/facts/opdefs", "tensorflow/facts/table_kernels", "tensorflow/graph",
    "tensorflow/lowering", "tensorflow/profiler",
)  # fmt: skip
"""Where Python's own exceptions say that this package is wrong, or are made into an exception of ours on the way."""


@dataclass(frozen=True)
class Message:
    """kind: the exception's class, `habana_tf` of what the logger says. text: with `…` for what differs."""

    kind: str
    text: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Entry:
    """A heading of the page, its place there, and the messages that it explains."""

    title: str
    anchor: str
    patterns: tuple[str, ...]

    def explains(self, message: Message) -> bool:
        return any(matches(pattern, message) for pattern in self.patterns)


def matches(pattern: str, message: Message) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split(ANY))), str(message), re.DOTALL) is not None


def entries() -> list[Entry]:
    """The entries of docs/troubleshooting.md."""
    out = []
    for part in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, rest = part.split("\n", 1)
        block = re.match(r"\n```text\n(.*?)\n```\n", rest, re.DOTALL)
        if block is None:
            raise ValueError(f"{PAGE.name}: the entry {title!r} does not begin with a block of messages")
        anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
        out.append(Entry(title, anchor, tuple(block[1].split("\n"))))
    return out


def collect() -> list[Message]:
    """All messages that a user may meet, in the order of the files."""
    found = [message for file in python_files() for message in _of_python(file)]
    found += [message for file in sorted((ROOT / "kernels").rglob("*.cc")) for message in _of_native(file)]
    return [message for message in dict.fromkeys(found) if _is_met(message)]


def _is_met(message: Message) -> bool:
    room = message.file.removeprefix("habana_tf/")
    ours = message.kind in PYTHONS and any(room.startswith(f"{each}{end}") for each in OF_OUR_CODE for end in "/.")
    return message.kind not in TAKEN_IN and not ours


def python_files() -> list[Path]:
    return [path for root in ("habana_tf", "habana_frameworks") for path in sorted((ROOT / root).rglob("*.py"))]


def _of_python(file: Path) -> Iterator[Message]:
    return of_source(file.read_text(), file)


def of_source(source: str, file: Path) -> Iterator[Message]:
    """What a Python source raises and logs."""
    tree = ast.parse(source)
    name = str(file.relative_to(ROOT))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = _kind(node.exc.func, tree)
            if kind == "SystemExit" or not kind:
                continue
            yield Message(kind, _text(node.exc, kind), name, node.lineno)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("warning", "error"):
            if "log" not in ast.unparse(node.func).lower() or not node.args:
                continue
            text = re.sub(r"%[-\d.]*[a-z]", ANY, template(node.args[0]))
            if re.search(r"\w{3}", text):
                yield Message("habana_tf", text, name, node.lineno)


def _kind(function: ast.expr, tree: ast.Module) -> str:
    """The class that a call makes: its name, or what the function of this name returns, here or elsewhere."""
    parts = ast.unparse(function).split(".")
    if parts[-1] == "at":
        return parts[-2]
    if parts[-1].lstrip("_")[:1].isupper():
        return parts[-1]
    near = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == parts[-1] and n.returns]
    if near and len(parts) == 1 or parts[0] == "self" and near:
        return ast.unparse(near[0].returns).split(".")[-1]
    known = {"error": "LoweringError", "needs_number": "NeedsNumber"}
    return "CustomOpError" if parts[0] == "reader" else known.get(parts[-1], "")


def _text(call: ast.Call, kind: str) -> str:
    """The first argument that has words: some exceptions have a number, a file or a node before it."""
    texts = [template(each) for each in call.args]
    worded = [text for text in texts if re.search(r"\w{3}", text)]
    return worded[0] if worded else ANY


def template(node: ast.expr) -> str:
    """A text of the sources, with `…` for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ANY
    if isinstance(node, ast.JoinedStr):
        return "".join(template(each) for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%[-\d.]*[a-z]", ANY, template(node.left))
    return ANY


_STATUS = re.compile(r"Status\(\s*Code::k(\w+),\s*((?:[^;]|;(?=[^\n]*\"))*?)\);|std::fprintf\(stderr,\s*(\"[^;]*?)\);")
_ERRORS = {"InvalidArgument": "InvalidArgumentError", "FailedPrecondition": "FailedPreconditionError",
           "DeadlineExceeded": "DeadlineExceededError", "ResourceExhausted": "ResourceExhaustedError",
           "Cancelled": "CancelledError", "Internal": "InternalError", "Unavailable": "UnavailableError",
           "Aborted": "AbortedError"}  # fmt: skip


def _of_native(file: Path) -> Iterator[Message]:
    """What native code reports: TensorFlow's error for the code, and the literals of its text."""
    source = file.read_text()
    for found in _STATUS.finditer(source):
        words = found[2] or found[3]
        literals = re.split(r'"((?:[^"\\]|\\.)*)"', words)
        text = "".join(part if i % 2 else (ANY if part.strip() else "") for i, part in enumerate(literals))
        if not re.search(r"\w{3}", text):
            continue
        text = re.sub(r"%[a-z]|" + ANY + "+", ANY, text.replace("\\n", "")).removesuffix(ANY if found[3] else "")
        kind = _ERRORS[found[1]] if found[1] else "habana_tf"
        line = source.count("\n", 0, found.start()) + 1
        yield Message(kind, text.removeprefix("habana_tf: "), str(file.relative_to(ROOT)), line)


def page() -> str:
    """The page of all messages by their entries: what the site's search finds a message by, section by section."""
    found = [message for message in collect() if re.search(r"\w{3}", message.text)]
    parts = [
        "---\nsearch:\n  boost: 2\n---",  # a search for the words of a message finds its entry first
        "# All messages",
        f"Every error and warning of habana_tf, with `{ANY}` for what differs each time, under the entry of "
        "[Troubleshooting](../troubleshooting.md) that explains it.",
    ]
    for entry in entries():
        texts = sorted(
            {" ".join(str(message).replace("`", "'").split()) for message in found if entry.explains(message)}
        )
        if texts:
            parts += [f"## {entry.title}", f"[Cause and remedy](../troubleshooting.md#{entry.anchor})"]
            parts.append("\n".join(f"- `{text}`" for text in texts))
    return "\n\n".join(parts) + "\n"
