"""What sees each op that a program calls: the base of `op_by_op` and of the report on 8 bits.

While one is entered, graphs of torch.compile, and modules and functions that replay HPU graphs, run op by op. Only what
a program replays itself calls no op: its launches are counted.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch.utils._python_dispatch import TorchDispatchMode


class EachOp(TorchDispatchMode):
    """entered: how many are, in this process. replayed: launches of HPU graphs that were run again in this process;
    unseen: those while this one was entered."""

    entered: ClassVar[int] = 0
    replayed: ClassVar[int] = 0
    unseen = 0

    def __enter__(self) -> Any:
        EachOp.entered += 1
        self.unseen -= EachOp.replayed
        return super().__enter__()

    @property
    def said(self) -> tuple[str, ...]:
        """What reports say of ops that were not seen."""
        what = "of HPU graphs that the program replays itself were not seen: call what they were captured of"
        return (f"{self.unseen:,} launches {what}",) if self.unseen > 0 else ()

    def __exit__(self, *error: Any) -> Any:
        EachOp.entered -= 1
        self.unseen += EachOp.replayed
        return super().__exit__(*error)
