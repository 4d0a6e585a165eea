"""Code generation: scheduled kernels to LLVM IR text, IR text to machine code."""
