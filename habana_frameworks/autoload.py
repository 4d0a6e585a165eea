"""What `import torch` calls at its end in an environment that has this package (entry point `torch.backends`): loads
the device where PT_HPU_AUTOLOAD=1 asks for it. Scripts need that which name it before they import Habana's modules:

    device = torch.device("hpu")
    import habana_frameworks.torch.core
    model.to(device)

A module beside the packages, so that any other program that imports torch imports nothing else of them.
"""

import os


def autoload() -> None:
    """Imports `habana_frameworks.torch` if it is asked for."""
    if "PT_HPU_AUTOLOAD" not in os.environ:
        return
    from habana_tf.settings import PT_HPU_AUTOLOAD

    if PT_HPU_AUTOLOAD.get():
        import habana_frameworks.torch  # noqa: F401
