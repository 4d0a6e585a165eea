"""Habana's transformer engine: modules whose products are of 8-bit floats, scaled by what was measured before.

`recipe` says how scales are chosen, `fp8` whether modules compute so; `scaling` keeps what a module has measured,
`products` is the linear layer with its gradients, which `linear` and `attention` make modules of.
`names` gives it the names that scripts have: `habana_frameworks.torch.hpex.experimental.transformer_engine`, and
`intel_transformer_engine`.
"""
