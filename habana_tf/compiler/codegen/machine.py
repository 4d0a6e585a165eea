"""LLVM IR text to machine code, and machine code to callable addresses (llvmlite).

No optimisation passes run on the IR: kernels are written with the vectors, unrolling and hoisting they want, and
the passes took three quarters of the time to change nothing that could be measured. The code generator's own
(instruction selection, machine-level hoisting and scheduling, register allocation) run as always.

llvmlite holds one lock around every call, so one process compiles one module at a time (see `objects.py`). Object code
is position independent of the process: `compile_ir` gives bytes for the recipe, `Loaded` links them into this process.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from habana_tf.compiler.costs import LINKED_LIBRARIES

if TYPE_CHECKING:
    from habana_tf.hardware.cpu import Target  # a quarter of the time that a worker takes to start

_LOCK = threading.Lock()
OPTIONS = ("-disable-lsr", "-post-RA-scheduler=0")
"""What LLVM leaves out. Loop strength reduction is most of the code generation time of unrolled kernels and gains
nothing there. A second scheduling, of instructions that have their registers, is a twelfth of it, and CPUs that run out
of order do without."""


@functools.cache
def _binding() -> Any:
    from llvmlite import binding

    for option in OPTIONS:
        binding.set_option("habana_tf", option)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def prepare() -> None:
    """Loads LLVM, which else the first module waits for."""
    _binding()


@functools.cache
def _machine(cpu: str, features: str) -> Any:
    """LLVM's machine, made once: with it goes what LLVM works out of two hundred features, a millisecond per module."""
    return _binding().Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default", jit=True
    )  # fmt: skip


def _module(ir: str) -> Any:
    module = _binding().parse_assembly(ir)
    module.verify()
    return module


def compile_ir(ir: str, target: Target) -> bytes:
    """Object code of a module."""
    return emit_object(ir, target.llvm_cpu, target.llvm_features)


def emit_object(ir: str, cpu: str, features: str) -> bytes:
    """Object code of a module, by LLVM's names of CPU and features."""
    with _LOCK:
        return bytes(_machine(cpu, features).emit_object(_module(ir)))


def assembly(ir: str, target: Target) -> str:
    """The machine code of a module, for people."""
    with _LOCK:
        return str(_machine(target.llvm_cpu, target.llvm_features).emit_assembly(_module(ir)))


@functools.lru_cache(maxsize=1)
def _linker(target: Target, generation: int) -> Any:
    """What links object code into this process. JITLink keeps the sections of an object together: the older linker
    put them wherever there was room, too far apart for the code's addresses once a card's memory is mapped.

    A linker never forgets a library that is gone, and keeps nine kilobytes of each. So there is a new one for every few
    libraries, and it goes with the last of them."""
    return _binding().create_lljit_compiler(_machine(target.llvm_cpu, target.llvm_features), use_jit_link=True)


_numbers = itertools.count()


class Loaded:
    """Object files linked into this process. Keep it as long as its functions may run.

    functions: those whose address will be asked for. imports: addresses of functions that the code calls, beside those
    of the C library.
    """

    def __init__(
        self,
        objects: Iterable[bytes],
        functions: Iterable[str],
        target: Target,
        imports: Mapping[str, int] | None = None,
    ) -> None:
        with _LOCK:
            builder = _binding().JITLibraryBuilder()
            for code in objects:
                builder.add_object_img(code)
            builder.add_current_process()
            for name, address in (imports or {}).items():
                builder.import_symbol(name, address)
            for name in functions:
                builder.export_symbol(name)
            number = next(_numbers)
            linker = _linker(target, number // LINKED_LIBRARIES)
            self._library = builder.link(linker, f"recipe{number}")
            self._library.linker = linker  # as an attribute of what it made it goes after that, never before

    def address(self, name: str) -> int:
        """The address of a function."""
        return int(self._library[name])
