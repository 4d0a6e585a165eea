"""`python -m habana_tf script.py args...`: runs a script with HPU loaded.

For scripts that never call `load_habana_module()`, because Habana's own Horovod did it for them, and set no variable of
Habana's, for which Horovod would load HPU here too (`horovod_compat`). The script then runs
as by `python script.py args...`; nothing else is changed or hooked. `-m module` and `-c code` are taken as Python
takes them.
"""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

_USAGE = "usage: python -m habana_tf (script.py | -m module | -c code) [arguments...]"


def main(arguments: list[str]) -> None:
    """Loads HPU and becomes the script. Ends the program with an error message when there is no script."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    kind, rest = arguments[0], arguments[1:]
    if kind in ("-m", "-c") and not rest:
        raise SystemExit(f"{kind} needs an argument\n{_USAGE}")
    if kind not in ("-m", "-c") and not os.path.exists(kind):
        raise SystemExit(f"there is no script {kind!r}\n{_USAGE}")
    from habana_tf.loader import load_habana_module

    load_habana_module()
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
