"""The API reference: every public function and class with its arguments and docstring, read without importing them.

Griffe reads the sources. A module's public names are those of its `__all__`, or without one those that have a
docstring and no leading underscore. Docstrings here are plain text with indented examples, which is Markdown already.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
THEIRS = ROOT / "habana_frameworks" / "tensorflow"

PAGES = {
    "loading": ("Loading the device", "habana_tf.loader"),
    "reports": ("Reports", "habana_tf.tensorflow.graph.explain:explain "
                "habana_tf.resolver.placement_report:placement_report "
                "habana_tf.resolver.recompilations:recompilation_report "
                "habana_tf.resolver.memory_report:memory_report "
                "habana_tf.card.clock.report:card_time_report "
                "habana_tf.torch.float8_report.report:fp8_report "
                "habana_tf.torch.op_by_op:op_by_op"),
    "prediction": ("Prediction", "habana_tf.dry_run.predict:predict habana_tf.dry_run.compare:compare "
                   "habana_tf.dry_run.plan:plan habana_tf.dry_run.generation:predict_generation "
                   "habana_tf.card.model.host:Host"),
    "callbacks": ("Keras callbacks", "habana_tf.keras_callbacks.card_time:CardTimeCallback "
                  "habana_tf.keras_callbacks.recipe_logger:RecipeLogger"),
    "distribute": ("Several cards", "habana_tf.distribute.strategy:HPUStrategy"),
    "custom": ("Ops of your own", "habana_tf.custom.op:custom_op habana_tf.custom.library:load_op_library "
               "habana_tf.tensorflow.lowering.lowering:Lowering habana_tf.formulas.term:wrap"),
    "cache": ("The recipe cache", "habana_tf.cache.directory:entries habana_tf.cache.directory:verify "
              "habana_tf.cache.directory:prune habana_tf.cache.directory:clear habana_tf.cache.directory:health "
              "habana_tf.cache.history:events habana_tf.cache.history:runs habana_tf.cache.history:totals "
              "habana_tf.cache.history:misses habana_tf.cache.history:explain habana_tf.cache.process_cache:stats "
              "habana_tf.cache.bundle:export_bundle habana_tf.cache.bundle:import_bundle"),
    "bf16_config": ("bf16 configuration", "habana_tf.tensorflow.graph.bf16_config"),
    "pyhlml": ("pyhlml", "habana_tf.hardware.pyhlml"),
}  # fmt: skip
"""Page to title and what is on it: modules, or `module:name`."""


def names() -> list[str]:
    """Where the pages are, from docs/ on."""
    return [f"reference/api/{page}.md" for page in (*PAGES, "habana_frameworks")]


def pages() -> dict[str, str]:
    """All pages: path from docs/ to text."""
    out = {f"reference/api/{page}.md": _page(title, what.split()) for page, (title, what) in PAGES.items()}
    return out | {"reference/api/habana_frameworks.md": _theirs()}


@functools.cache
def _sources() -> Any:
    """Both packages, read together, because each offers names of the other."""
    import griffe

    loader = griffe.GriffeLoader(search_paths=[str(ROOT)])
    for package in ("habana_tf", "habana_frameworks"):
        loader.load(package, submodules=True, try_relative_path=False)
    return loader.modules_collection


def _module(name: str) -> Any:
    return _sources()[name]


def _page(title: str, what: list[str]) -> str:
    parts = [f"# {title}"]
    for each in what:
        module, _, name = each.partition(":")
        if name:
            parts.append(_entry(_module(module)[name], 2))
        else:
            parts.append(_text(_module(module).docstring))
            parts += [_entry(member, 2) for member in public(_module(module))]
    return "\n\n".join(parts) + "\n"


def _theirs() -> str:
    """The modules that exist for scripts written for Gaudi."""
    parts = ["# habana_frameworks.tensorflow", "`habana_frameworks.tensorflow.X` and `habana_tf.X` are one module."]
    for name in theirs():
        module = _module(f"habana_frameworks.tensorflow.{name}")
        parts += [f"## {name}", _text(module.docstring), *(_entry(member, 3) for member in public(module))]
    return "\n\n".join(parts) + "\n"


def theirs() -> list[str]:
    """The modules of habana_frameworks.tensorflow, as they are imported from it, but for one that only old programs
    of this package know."""
    found = [path.relative_to(THEIRS).with_suffix("") for path in sorted(THEIRS.rglob("*.py"))]
    named = [".".join(path.parts).removesuffix(".__init__").removesuffix("__init__") for path in found]
    return [name for name in named if name and name != "setting"]


def public(module: Any) -> list[Any]:
    """The functions and classes that a module offers, in the order of its file."""
    chosen = set(module.exports or ())
    members = {name: member for name, member in module.members.items() if not name.startswith("_")}
    if chosen:
        kept = [
            member.final_target if member.is_alias else member for name, member in members.items() if name in chosen
        ]
    else:
        kept = [member for member in members.values() if not member.is_alias and member.has_docstring]
    return [member for member in kept if member.is_function or member.is_class]


def _entry(member: Any, level: int) -> str:
    kind = "class " if member.is_class else ""
    parts = [f"{'#' * level} {member.name}", f"```python\n{kind}{_signature(member)}\n```"]
    if member.docstring:
        parts.append(_text(member.docstring))
    if member.is_class:
        for each in member.members.values():
            if each.is_function and not each.name.startswith("_") and each.docstring:
                parts.append(f"**`{_signature(each)}`**\n\n{_text(each.docstring)}")
    return "\n\n".join(parts)


def _signature(member: Any) -> str:
    """`name(arguments) -> type`, of a class that of what makes it; broken into lines where it is long."""
    function = member.members.get("__init__", member) if member.is_class else member
    words = [_argument(each) for each in getattr(function, "parameters", ()) if each.name not in ("self", "cls")]
    starred = [each.kind.value for each in getattr(function, "parameters", ()) if each.name not in ("self", "cls")]
    first = next((i for i, kind in enumerate(starred) if kind == "keyword-only"), None)
    if first is not None and "variadic positional" not in starred:
        words.insert(first, "*")
    gives = f" -> {function.returns}" if not member.is_class and getattr(function, "returns", None) else ""
    line = f"{member.name}({', '.join(words)}){gives}"
    return line if len(line) <= 88 else f"{member.name}(\n    " + ",\n    ".join(words) + f",\n){gives}"


def _argument(parameter: Any) -> str:
    star = {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "")
    out = star + parameter.name + (f": {parameter.annotation}" if parameter.annotation else "")
    if parameter.default is None or star:
        return out
    return f"{out} = {parameter.default}" if parameter.annotation else f"{out}={parameter.default}"


def _text(docstring: Any) -> str:
    """A docstring as Markdown: its lists get the empty line before them that Python-Markdown wants."""
    if not docstring:
        return ""
    return re.sub(r"^((?![-*\s]).+)\n(?=- )", r"\1\n\n", docstring.value, flags=re.MULTILINE)
