"""What Habana's backend of `torch.compile` can be told: attributes, which a program may set at any time.

`use_eager_fallback` and `keep_input_mutations` are the options of `hpu_backend` where a call of `torch.compile` gives
none. The others choose between ways in which Habana's compiler works, and change nothing here.
"""

from __future__ import annotations

import sys
from typing import Any

from habana_tf.settings import PT_HPU_KEEP_INPUT_MUTATIONS, PT_HPU_USE_EAGER_FALLBACK

keep_input_mutations = PT_HPU_KEEP_INPUT_MUTATIONS.get()
use_eager_fallback = PT_HPU_USE_EAGER_FALLBACK.get()

decomposition_mode = "habana"
discard_frozen_params = False
enable_allreduce_graph_split = True
enable_sfg = False
force_static_compile = False
inference = True
reassign_copy_ = True
reassign_full_copy = True
reinplace_add = True
remove_unnecessary_clones = True
use_boxed_input = True
use_compiled_recipes = True
use_cpp_partitioner = True
use_graph_freezing = False
use_inplace_allreduce = True
use_inplace_index_copy = True


class _Flags:
    """The attributes as a dictionary has them, which is their older form."""

    def __getitem__(self, name: str) -> Any:
        return getattr(sys.modules[__name__], name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(sys.modules[__name__], name, value)


configuration_flags = _Flags()
