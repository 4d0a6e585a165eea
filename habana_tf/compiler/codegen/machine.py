"""LLVM IR text to machine code, and machine code to callable addresses (llvmlite).

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


def optimize(ir: str, target: Target) -> Any:
    """The parsed module after the optimisation pipeline."""
    binding = _binding()
    module = binding.parse_assembly(ir)
    module.verify()
    machine = _machine(target)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def compile_ir(ir: str, target: Target) -> bytes:
    """Object code of a module."""
    with _LOCK:
        module, machine = optimize(ir, target)
        return bytes(machine.emit_object(module))


def assembly(ir: str, target: Target) -> str:
    """The machine code of a module, for people."""
    with _LOCK:
        module, machine = optimize(ir, target)
        return str(machine.emit_assembly(module))


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
