"""`habana-tf recipes ir` and `asm`: the cluster, its primitives, the LLVM IR and the machine code of a recipe.

An entry keeps the cluster and the object code. What is between them is generated again by the same steps, and shown
only if it is what was compiled: the entry's compiler and target must be those of this host, and `asm` compares the new
object code with the entry's, byte by byte. Everything but the cluster imports TensorFlow, where the recipe is of
a program of its.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError, print_json, write_file
from habana_tf.cli.recipes import contents
from habana_tf.cli.recipes.common import action, add_recipe, entry_of, only_match, opened, rows_of

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry

_STAGES = ("cluster", "primitives", "llvm")
_FUNCTION = re.compile(r"^define void @(k\d+)\(.*?^}", re.MULTILINE | re.DOTALL)
_ASSEMBLY = re.compile(r"^(k\d+):.*?^\.Lfunc_end\d+:", re.MULTILINE | re.DOTALL)


def declare_ir(parser: argparse.ArgumentParser) -> None:
    action(parser, _ir, "ir 8c6e --stage cluster", "ir 8c6e --kernel 3")
    parser.add_argument("--stage", choices=_STAGES, default="llvm", help="default: llvm")
    _add_kernel(parser)


def declare_asm(parser: argparse.ArgumentParser) -> None:
    action(parser, _asm, "asm 8c6e --kernel 3", "asm 8c6e --object 8c6e.o")
    parser.add_argument("--object", metavar="FILE", help="instead write the object code, for objdump and other tools "
                        "(FILE, FILE.1, ... for a recipe of several objects)")  # fmt: skip
    _add_kernel(parser)


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument("--kernel", metavar="N", type=whole(0), help="only this kernel's functions (see `show`)")


def _entry(arguments: argparse.Namespace) -> Entry:
    reader = opened(arguments)
    good, _ = rows_of(reader)
    entry = entry_of(reader, only_match(good, arguments.recipe, reader.root))
    if "graph" not in entry.sections:
        raise CommandError(f"{entry.name} {entry.digest} does not say what it was compiled from", 1)
    return entry


def _ir(arguments: argparse.Namespace) -> int:
    entry = _entry(arguments)
    if arguments.kernel is not None and arguments.stage != "llvm":
        raise CommandError("--kernel goes with --stage llvm", 2)
    if arguments.stage == "cluster":
        text = _cluster(entry)
    elif arguments.stage == "primitives":
        text = _primitives(entry)
    else:
        text = "\n".join(_chosen(entry, arguments.kernel, _modules(entry), _FUNCTION))
    return _print(arguments, text)


def _asm(arguments: argparse.Namespace) -> int:
    from habana_tf.compiler.codegen.machine import assembly, compile_ir
    from habana_tf.compiler.codegen.objects import split
    from habana_tf.hardware.cpu import target

    entry = _entry(arguments)
    objects = split(entry.sections["object"])
    if arguments.object is not None:
        written = {f"{arguments.object}.{k}" if k else arguments.object: data for k, data in enumerate(objects)}
        for path, data in written.items():
            write_file(path, data)
        if arguments.json:
            print_json({"files": list(written)})
        return 0
    modules = _modules(entry)
    if [compile_ir(ir, target()) for ir in modules] != objects:
        raise CommandError(f"{entry.name}: compiling it again gives different code; --object writes the stored code", 1)
    return _print(
        arguments, "\n".join(_chosen(entry, arguments.kernel, [assembly(ir, target()) for ir in modules], _ASSEMBLY))
    )


def _print(arguments: argparse.Namespace, text: str) -> int:
    if arguments.json:
        print_json({"text": text})
    else:
        sys.stdout.write(text.rstrip("\n") + "\n")
    return 0


def _cluster(entry: Entry) -> str:
    """n3 = MatMul(n1, a0)  # model/dense/MatMul"""
    graph = contents.graph(entry)

    def ref(op: int, output: int) -> str:
        return f"a{output}" if op < 0 else f"n{op}" + (f":{output}" if output else "")

    described = entry.header["inputs"]
    lines = [
        f"a{k} = {about['dtype']}[{','.join(map(str, about['shape']))}]  # {name}"
        for k, (name, about) in enumerate(zip(graph["inputs"], described, strict=True))
    ]
    for k, op in enumerate(contents.ops(entry)):
        lines.append(f"n{k} = {op.type}({', '.join(ref(*r) for r in op.inputs)})  # {op.name}")
    lines.append("return " + ", ".join(ref(*r) for r in graph["outputs"]))
    return "\n".join(lines)


def _primitives(entry: Entry) -> str:
    """The lowered program, a line per node, with the op it came from."""
    program = _program(entry)
    ops = contents.ops(entry)
    nodes = [*dict.fromkeys([*program.inputs, *program.nodes()])]
    number = {node: k for k, node in enumerate(nodes)}
    lines = []
    for node in nodes:
        arg = f"{len(node.arg)} bytes" if isinstance(node.arg, bytes) else node.arg
        sources = ", ".join(f"%{number[s]}" for s in node.src)
        shape = ",".join(map(str, node.shape))
        what = f"%{number[node]} = {node.op.name.lower()}({sources}) {node.dtype}[{shape}]"
        lines.append(
            what + ("" if arg is None else f" {arg}") + (f"  # {ops[node.origin].name}" if node.origin >= 0 else "")
        )
    lines.append("return " + ", ".join(f"%{number[n]}" for n in program.outputs))
    return "\n".join(lines)


def _modules(entry: Entry) -> list[str]:
    """The LLVM IR, module by module."""
    from habana_tf.compiler.codegen.generate import generate
    from habana_tf.compiler.compile import prepared
    from habana_tf.compiler.costs import MODULE_IR_BYTES, bf16_rounding
    from habana_tf.compiler.schedule import schedule
    from habana_tf.hardware.cpu import target

    modules: list[str] = []
    goal = target()
    plan = schedule(prepared(_program(entry)), rounding=bf16_rounding(goal.rounds_to_bf16))
    generate(plan, goal, modules.append, MODULE_IR_BYTES)
    return modules


def _program(entry: Entry) -> Any:
    """What was lowered, lowered again. Raises CommandError when this compiler, host or lowering is another one."""
    from habana_tf.hardware.cpu import BF16_PART, target
    from habana_tf.resolver.keys import compiler_version, program_key, target_parts
    from habana_tf.resolver.provenance import Provenance

    parts = {part.name: part.value for part in entry.key.parts}
    here = dict([("compiler", compiler_version()), *target_parts(target(), BF16_PART in parts)])
    other = [name for name, value in here.items() if parts.get(name) != value]
    try:
        program = (
            None if other else Provenance.of(entry.sections, contents.cluster_reader(entry)).compiled_program(target())
        )
    except ImportError as error:
        raise CommandError(f"lowering needs TensorFlow: {error}", 1) from error
    except KeyError as error:
        raise CommandError(
            f"{entry.name} has an op that only its program defines ({error.args[0]}): it cannot be lowered again here "
            "(`asm --object` writes the stored code, `ir --stage cluster` prints the cluster)", 1,
        ) from error  # fmt: skip
    if program is None or program_key(program, target()).digest != entry.header["program"]:
        raise CommandError(
            f"{entry.name} was compiled under another {', '.join(other) or 'version of the lowerings'}: what this one "
            "would make of it is not shown (`asm --object` writes the stored code, `ir --stage cluster` prints the "
            "cluster)", 1,
        )  # fmt: skip
    return program


def _chosen(entry: Entry, kernel: int | None, modules: list[str], function: re.Pattern[str]) -> list[str]:
    """The text of whole modules, or of the functions of one kernel."""
    if kernel is None:
        return modules
    import json

    rows = contents.kernels(entry)
    if not 0 <= kernel < len(rows):
        raise CommandError(f"{entry.name} has {len(rows)} kernels, counted from 0: there is no kernel {kernel}", 1)
    first, count = rows[kernel]["launches"]
    calls = json.loads(entry.sections["plan"])["launches"][first : first + count]
    wanted = dict.fromkeys(call[0] for call in calls)
    found = {match[1]: match[0] for module in modules for match in function.finditer(module)}
    return [found[name] for name in wanted]
