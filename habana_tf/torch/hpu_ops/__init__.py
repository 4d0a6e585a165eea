"""`torch.ops.hpu`: the ops of Habana's bridge that scripts call by name, with its schemas.

`registration` defines them; each module beside it has a family. An op is a formula of PyTorch's own ops, on any device,
or of those with a row in the table of overloads (`ops.float8`) one op of a program.
"""
