"""A kernel of a product: a loop over work items around the stages that make an item's tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.codegen.emit import Function
from habana_tf.compiler.codegen.tiles.drain import TileResults
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tile_engine import Configurations, release
from habana_tf.compiler.contraction import Canonical
from habana_tf.ir.extent import Extent


@dataclass(frozen=True)
class ContractionCall:
    """A call of a contraction's kernel; see `code.FunctionCall`."""

    function: Function
    buffers: tuple[CallBuffer, ...]
    grid: Extent
    grain: int
    once: bool = False

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def ir(self) -> str:
        return self.function.text()


class Kernel(TileResults):
    """Base of kernels that pass tiles to an epilogue. inputs: the buffers before those of the epilogue."""

    configurations: Configurations | None = None
    """Of a tile engine's registers; set by `prepare`."""

    def __init__(self, c: Canonical, p: Plan, name: str, inputs: Sequence[CallBuffer], out: Epilogue) -> None:
        super().__init__(c, p, name)
        self.inputs, self.out = inputs, out

    def prepare(self) -> None:
        """Reserves what the kernel keeps on its stack, at the function's entry."""
        raise NotImplementedError

    def item(self, cursor: Cursor) -> None:
        """Emits a work item."""
        raise NotImplementedError

    def emit(self, grain: int | None = None) -> ContractionCall:
        """The call. grain: if not the plan's."""
        fn, p = self.fn, self.p
        self.prepare()
        self.pointers = [fn.buffer(i) for i in range(len(self.inputs))]
        self.out.begin(fn, [fn.buffer(len(self.inputs) + i) for i in range(len(self.out.buffers))])
        if self.configurations:
            self.configurations.start()
        self.items(self.item, self.out)
        if self.configurations:
            release(fn)
        return ContractionCall(fn, (*self.inputs, *self.out.buffers), p.grid, grain or p.grain)
