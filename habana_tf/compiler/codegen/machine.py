"""Compiles LLVM IR to object code and links object code into this process (llvmlite).

No optimization passes run on the IR: kernels are emitted vectorized, unrolled and hoisted, and the passes took three
quarters of the time for no measurable gain. The code generator's own passes (instruction selection, machine-level
hoisting and scheduling, register allocation) run.

llvmlite holds a lock during every call, so a process compiles one module at a time (see `objects.py`). Object code does
not depend on the process: `compile_ir` gives bytes for the recipe, `Loaded` links them.
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
    """Loads LLVM ahead of the first module."""
    _binding()


@functools.cache
def _machine(cpu: str, features: str, triple: str | None) -> Any:
    """LLVM's target machine, cached: parsing its two hundred features takes a millisecond. triple: of another
    architecture than this machine's (see `Target.triple`)."""
    binding = _binding()
    if triple is None:
        found = binding.Target.from_default_triple()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        found = binding.Target.from_triple(triple)
    return found.create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default", jit=True
    )  # fmt: skip


def _module(ir: str) -> Any:
    module = _binding().parse_assembly(ir)
    module.verify()
    return module


def compile_ir(ir: str, target: Target) -> bytes:
    """Object code of a module."""
    return emit_object(ir, target.llvm_cpu, target.llvm_features, target.triple)


def emit_object(ir: str, cpu: str, features: str, triple: str | None) -> bytes:
    """Object code of a module, by LLVM's names of CPU, features and architecture."""
    with _LOCK:
        return bytes(_machine(cpu, features, triple).emit_object(_module(ir)))


def assembly(ir: str, target: Target) -> str:
    """The assembly of a module, for reports."""
    with _LOCK:
        return str(_machine(target.llvm_cpu, target.llvm_features, target.triple).emit_assembly(_module(ir)))


@functools.lru_cache(maxsize=1)
def _linker(target: Target, generation: int) -> Any:
    """The JIT linker of some libraries. JITLink keeps an object's sections together; the older linker could place them
    too far apart for the code's relocations once a card's memory is mapped.

    A linker keeps nine kilobytes of each library that was unloaded. So every `_GENERATION` libraries have a linker of
    their own, which is freed with the last of them."""
    return _binding().create_lljit_compiler(
        _machine(target.llvm_cpu, target.llvm_features, target.triple), use_jit_link=True
    )


_numbers = itertools.count()


class Loaded:
    """Object files linked into this process; unloaded with this object.

    functions: those whose addresses are needed. imports: addresses of functions that the code calls, other than those
    of the C library. Raises ValueError where they are for another architecture.
    """

    def __init__(
        self,
        objects: Iterable[bytes],
        functions: Iterable[str],
        target: Target,
        imports: Mapping[str, int] | None = None,
    ) -> None:
        if target.triple is not None:
            raise ValueError(f"code for {target.architecture} does not run on this machine: compile it again here")
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
            self._library.linker = linker  # an attribute of the library, so that it is freed later

    def address(self, name: str) -> int:
        """The address of a function."""
        return int(self._library[name])
