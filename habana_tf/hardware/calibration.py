"""Which of two kinds of bf16 products is faster on this host: measured once, and kept as a coarse answer.

What: `bf16_products` says whether products of bf16 are computed by the instruction that multiplies pairs ("dot") or as
fp32 ("widen"). It is measured for some milliseconds when a program with bf16 first needs a key on this host, and kept
in the user's cache directory, in a file named by the model of the CPU.

Why measured: AVX512_BF16 means that there is such an instruction, not that it is fast. On a server without AMX it does
half the multiply-adds per second of fp32, which made every network slower in bf16 than in fp32; on AMD's Zen 5 it does
twice as many.

Invariants: the answer is in the recipe key, the rates are not; they are kept for information. The rates of the two
instructions are to each other as 1:2, 1:1 or 2:1, and the threshold is in the middle between two of these, so that a
noisy minute does not change the answer. Where the file cannot be read, trusted or written, the process measures.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import os
import platform
import time
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from habana_tf import settings
from habana_tf.files import trust

Products = Literal["dot", "widen"]

VERSION = 1
"""Of what is measured and of the file; another version is measured anew."""
DOT_PAYS = 0.7
"""Multiply-adds by pairs for each one in fp32 from which on pairs pay: between 1/2 and 1. With as many they pay: they
read half the bytes, and a operand need not be widened first."""
SUMS = 12
"""Sums that the loops have in registers: more than the latency of either instruction takes to hide."""
TURNS = 4000
ROUNDS = 16
"""Each loop runs so often, in turn with the other, and its shortest time counts."""

log = logging.getLogger("habana_tf")


class Answer(NamedTuple):
    """products: the faster way. source: where the answer comes from. rates: multiply-adds per second of each loop."""

    products: Products
    source: str
    rates: dict[str, float] | None = None


_answers: dict[str, Answer] = {}
"""By model of the CPU; what this process answered once it goes on answering."""


def bf16_products(cpu: str, features: str) -> Answer:
    """How to compute products of bf16 on this host, with a CPU that has both ways.

    cpu, features: LLVM's names of the target that the loops are compiled for.
    """
    model = cpu_model()
    found = _answers.get(model)
    if found is None:
        found = _kept(model) or measure(cpu, features)
        found = _answers.setdefault(model, _keep(model, found) if found.rates else found)
    return found


def forget() -> None:
    """Drops the answers of this process; the file stays."""
    _answers.clear()


def measure(cpu: str, features: str) -> Answer:
    """Times both loops on the calling thread, by its CPU time, so that other load does not count.

    Without the instruction on this CPU (a target for another one) nothing is measured, and the answer is "dot"."""
    if not _executes():
        return Answer("dot", "not measured: this CPU has no such instruction")
    engine, loops = _compiled(cpu, features)
    memory = (ctypes.c_float * (16 * SUMS))()
    best = dict.fromkeys(loops, 1 << 62)
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            start = time.thread_time_ns()
            loop(ctypes.addressof(memory), TURNS)
            best[name] = min(best[name], max(1, time.thread_time_ns() - start))
    del engine
    work = 16 * SUMS * TURNS * 1e9
    rates = {"fma": work / best["fma"], "dot": 2 * work / best["dot"]}
    return Answer("dot" if rates["dot"] >= DOT_PAYS * rates["fma"] else "widen", "measured now", rates)


# -- the file ---------------------------------------------------------------------------------------------------


def directory() -> str:
    """Where answers are kept; it may not exist yet. Raises FileNotFoundError for a user without a home."""
    caches = settings.XDG_CACHE_HOME.get() or os.path.expanduser("~/.cache")
    if not os.path.isabs(caches):
        raise FileNotFoundError(f"{caches} is not an absolute path")
    return os.path.join(caches, "habana_tf")


@functools.cache
def cpu_facts() -> dict[str, str]:
    """What the kernel says of the first CPU, such as "model name": "Intel(R) Xeon(R) ..."."""
    found: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if not name.strip():
                break  # the first CPU's lines end here
            found[name.strip()] = value.strip()
    return found


def cpu_model() -> str:
    """The name and numbers of the CPU's model: hosts of one model share answers, also by a shared home directory."""
    names, found = ("model name", "vendor_id", "cpu family", "model", "stepping"), cpu_facts()
    return " / ".join(found[name] for name in names if name in found) or platform.processor() or platform.machine()


def _file(model: str) -> str:
    import hashlib

    return f"calibration-v{VERSION}-{hashlib.sha256(model.encode()).hexdigest()[:16]}.json"


def _kept(model: str) -> Answer | None:
    """The answer in the file; None if there is none that can be read and believed."""
    name = _file(model)
    try:
        with trust.root_directory(directory(), create=False) as root, trust.regular_file(name, root) as file:
            data: Any = json.loads(trust.read_all(file))
    except (OSError, ValueError, trust.Refused) as why:
        log.debug("no calibration from %s: %s", name, why)
        return None
    if not isinstance(data, dict) or (data.get("version"), data.get("cpu")) != (VERSION, model):
        return None
    products = data.get("bf16_products")
    if products not in ("dot", "widen"):
        return None
    return Answer(cast("Products", products), os.path.join(directory(), name))


def _keep(model: str, answer: Answer) -> Answer:
    """Writes the answer; returns the one in the file: of processes that measured at once, the first one's."""
    name, own = _file(model), f".{os.getpid()}-{time.monotonic_ns()}"
    data = {"version": VERSION, "cpu": model, "bf16_products": answer.products, "rates": answer.rates}
    try:
        with trust.root_directory(directory(), create=True) as root:
            with trust.regular_file(own, root, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
                os.write(file, json.dumps(data, indent=1).encode() + b"\n")
            try:
                os.link(own, name, src_dir_fd=root, dst_dir_fd=root)
            except FileExistsError:
                if (first := _kept(model)) is not None:
                    return first
                os.replace(own, name, src_dir_fd=root, dst_dir_fd=root)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(own, dir_fd=root)
    except (OSError, trust.Refused) as why:
        log.debug("the calibration is not kept: %s", why)
    return answer


# -- the loops --------------------------------------------------------------------------------------------------

_FMA = "call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> {})"
_DOT = "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> {}, <32 x bfloat> %p, <32 x bfloat> %p)"
_DECLARED = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
"""


def _loop(name: str, step: str) -> str:
    """A function (memory, turns) that does one `step` on each of the sums per turn."""
    numbers = range(SUMS)
    lines = [
        f"define void @{name}(ptr %memory, i64 %turns) {{",
        "start:",
        "  %x = load <16 x float>, ptr %memory, align 4",
        "  %p = bitcast <16 x float> %x to <32 x bfloat>",
        "  br label %turn",
        "turn:",
        "  %left = phi i64 [ %turns, %start ], [ %less, %turn ]",
        *(f"  %s{i} = phi <16 x float> [ %x, %start ], [ %t{i}, %turn ]" for i in numbers),
        *(f"  %t{i} = {step.format(f'%s{i}')}" for i in numbers),
        "  %less = add i64 %left, -1",
        "  %more = icmp sgt i64 %less, 0",
        "  br i1 %more, label %turn, label %end",
        "end:",
    ]
    for i in numbers:
        lines.append(f"  %a{i} = getelementptr i8, ptr %memory, i64 {64 * i}")
        lines.append(f"  store <16 x float> %t{i}, ptr %a{i}, align 4")
    return "\n".join([*lines, "  ret void", "}"])


def _executes() -> bool:
    """Whether this CPU has both instructions."""
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512bf16"))


def _compiled(cpu: str, features: str) -> tuple[object, dict[str, Any]]:
    """The two loops as functions that Python can call, and the engine that owns their code."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
    module = binding.parse_assembly("\n".join([_DECLARED, _loop("fma", _FMA), _loop("dot", _DOT)]))
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    loops = {name: kind(engine.get_function_address(name)) for name in ("fma", "dot")}
    return engine, loops
