"""Tables made from the sources: the settings, Habana's variables, Habana's modules.

Pages written by hand take the last two in by a line of their own: `<!-- table: variables -->`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from habana_tf import settings as registry
from habana_tf.settings import habana
from tests.documentation import api


def settings() -> str:
    """The page of all environment variables that have an effect."""
    rows = []
    for each in registry.declared():
        default = "unset" if each.default is None else f"`{registry.shown(each.default)}`"
        older = f" Older name: {_code(each.aliases)}." if each.aliases else ""
        rows.append((f"`{each.name}`", f"{each.meaning}{older}<br>{each.allowed}; default: {default}"))
    return (
        "# Settings\n\nEvery environment variable that habana_tf reads, in the order of `habana-tf settings`, which "
        "also prints their values. A value that is not allowed is an error that names the variable, and so is a "
        "`HABANA_SIM_*` that does not exist. Habana's variables that have no effect here are in [Coming from Habana's "
        "software](../coming-from-habana.md#variables).\n\n"
        + _table(("variable", "meaning, what is allowed, default"), rows)
    )


def variables() -> str:
    """Habana's variables: with an effect, read by other programs, without effect."""
    not_theirs = ("HABANA_SIM_", "XDG_", "OMPI_", "PMI_", "MPI_", "SLURM_", "HOROVOD_")
    ours = {}
    for each in registry.declared():
        if not each.name.startswith(not_theirs):
            ours[each.name] = "works here: [settings](reference/settings.md)"
        ours |= dict.fromkeys(each.aliases, f"works here, as the older name of `{each.name}`")
    others = {name: f"read by {by}, not by habana_tf" for name, by in habana.read_by_others().items()}
    none = {name: f"no effect: {why}" for name, why in habana.without_effect().items()}
    return _table(("variable", "here"), ((f"`{k}`", v) for k, v in sorted({**none, **others, **ours}.items())))


def modules() -> str:
    """Habana's modules: what theirs did and what this one does, from their docstrings."""
    rows = []
    for name in api.theirs():
        path = api.THEIRS / (name.replace(".", "/") + ".py")
        path = path if path.exists() else api.THEIRS / name.replace(".", "/") / "__init__.py"
        tree = ast.parse(path.read_text())
        said = ast.get_docstring(tree) or ""
        found = re.search(r"Habana's: (.*?)\nHere: (.*?)(?:\n\n|\Z)", said, re.DOTALL)
        if not found:
            raise ValueError(f"{path}: its docstring does not say what Habana's did and what this one does")
        theirs, here = (" ".join(each.split()) for each in found.groups())
        names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name[0] != "_"]
        rows.append(("<br>".join([f"**`{name}`**", *(f"`{each}`" for each in dict.fromkeys(names))]), theirs, here))
    return _table(("module and its names", "Habana's", "here"), rows)


def fill(text: str) -> str:
    """A page with its tables in the place of the lines that name them."""
    made = {"variables": variables, "modules": modules}
    return re.sub(r"^<!-- table: (\w+) -->$", lambda found: made[found[1]](), text, flags=re.MULTILINE)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
