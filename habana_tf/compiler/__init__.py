"""The graph compiler: cluster -> primitives -> fused kernels -> schedule -> memory plan -> machine code -> recipe."""
