"""LLVM IR text to machine code, and machine code to callable addresses (llvmlite).

No optimisation passes run on the IR: kernels are written with the vectors, unrolling and hoisting they want, and
the passes took three quarters of the time to change nothing that could be measured. The code generator's own
(instruction selection, machine-level hoisting and scheduling, register allocation) run as always.

llvmlite holds one lock around every call, so one process compiles one module at a time; modules are small.
Object code is position independent of the process: `compile_ir` gives bytes for the recipe, `Loaded` links them
into this process.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from habana_tf.hardware.cpu import Target

_LOCK = threading.Lock()


@functools.cache
def _binding() -> Any:
    from llvmlite import binding

    # Loop strength reduction is most of the code generation time of unrolled kernels and gains nothing there.
    binding.set_option("habana_tf", "-disable-lsr")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def _machine(target: Target) -> Any:
    binding = _binding()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=target.llvm_cpu, features=target.llvm_features, opt=2, reloc="pic", codemodel="default", jit=True
    )


def _module(ir: str) -> Any:
    module = _binding().parse_assembly(ir)
    module.verify()
    return module


def compile_ir(ir: str, target: Target) -> bytes:
    """Object code of a module."""
    with _LOCK:
        return bytes(_machine(target).emit_object(_module(ir)))


def assembly(ir: str, target: Target) -> str:
    """The machine code of a module, for people."""
    with _LOCK:
        return str(_machine(target).emit_assembly(_module(ir)))


class Loaded:
    """Object code linked into this process. Keep it as long as its functions may run."""

    def __init__(self, code: bytes, target: Target) -> None:
        binding = _binding()
        with _LOCK:
            empty = binding.parse_assembly("")
            self._engine = binding.create_mcjit_compiler(empty, _machine(target))
            self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        return int(self._engine.get_function_address(name))
