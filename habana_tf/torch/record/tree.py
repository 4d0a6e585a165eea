"""A node of the tree of recordings: one op in its place, with all that recording it again takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.torch.record.overload import Where
from habana_tf.torch.record.program import RecordedOp, Recording


@dataclass(eq=False)
class TreeNode:
    """One op after those of the nodes before it.

    index: its number in the recording. before: the node before.
    record: the op as data.
    new: shape and type of each input of the program that it is the first to read. parameters: those of them that are
    parameters of modules.
    numbers: how many floats and how many integers it reads at run time.
    refused: why no program can have the op; empty where one can.
    fresh: what `Memory.tensor` takes, for each new result. written: the arguments that it writes. returned: the
    arguments that it returns. single: whether it returns one value and not a tuple. plain: whether it makes one new
    tensor and does nothing else.
    scope: the module that called it (`scopes`). line: the line of the user's program.
    then: the nodes that follow, by entry. lists: the stretches of ops on lists of tensors that follow
    (`dispatch.foreach`).
    launches: programs that end here, by the results that they give and the inputs that these replace.
    """

    index: int
    before: TreeNode | None = None
    record: RecordedOp | None = None
    new: tuple[tuple[tuple[int, ...], str], ...] = ()
    parameters: tuple[int, ...] = ()
    numbers: tuple[int, int] = (0, 0)
    refused: str = ""
    fresh: tuple[Any, ...] = ()
    written: tuple[Where, ...] = ()
    returned: tuple[Where, ...] = ()
    single: bool = True
    scope: str = ""
    line: str = ""
    plain: bool = False
    then: dict[Any, TreeNode] = field(default_factory=dict)
    launches: dict[Any, Any] = field(default_factory=dict)
    lists: dict[Any, list[Any]] = field(default_factory=dict)

    def path(self) -> Iterator[TreeNode]:
        """The nodes from the first one to this."""
        found = []
        node: TreeNode | None = self
        while node is not None and node.record is not None:
            found.append(node)
            node = node.before
        yield from reversed(found)

    def recording(self, wanted: Sequence[tuple[tuple[int, int], int]]) -> Recording:
        """The program that ends here, as data. wanted: each result that it is to give, with the input that is in the
        same memory, -1 for none."""
        path = list(self.path())
        ops = [s.record for s in path if s.record is not None]
        inputs = tuple(item for s in path for item in s.new)
        floats, integers = (sum(s.numbers[k] for s in path) for k in (0, 1))
        outputs = tuple(value for value, _ in wanted)
        updates = tuple(update for _, update in wanted)
        return Recording(
            inputs, floats, integers, tuple(ops), outputs, updates, tuple(s.scope for s in path),
            parameters=tuple(k for s in path for k in s.parameters), lines=tuple(s.line for s in path),
        )  # fmt: skip
