"""Gets the recipe of a key: from this process's memory, the package or the recipe cache, or by compiling it.

A recipe stands under the digest of the program it was compiled from, and under the keys that came to it: where a slice
begins is in the key of its cluster, since it may fix a shape, but often not in the program. Of both those used last are
kept, up to a number, and up to so many bytes of machine code and constants. A program owns what it needs of its recipe
and runs on when that is forgotten here; a launch that meets its shapes anew gets it from the recipe cache, or compiled.

Invariants: one thread looks for a key or compiles it while all others that need it wait; nothing is logged, read or
compiled under the lock of the memory.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from habana_tf import settings
from habana_tf.cache import process_cache
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.recipe_cache import KnownFailure
from habana_tf.compiler.code_checks import CodeError
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import describe_kernels, pack, seal, unpack
from habana_tf.compiler.recipe import Recipe, TooLarge, bind
from habana_tf.compiler.recipe_checks import RecipeError, Tensor, check
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Target
from habana_tf.ir.extent import Extent
from habana_tf.ir.libraries import LibraryError
from habana_tf.ir.primitives import Node, Program
from habana_tf.resolver import garbage_collection, progress, recipe_summary
from habana_tf.resolver.keys import program_key, tools
from habana_tf.resolver.provenance import Provenance
from habana_tf.resolver.request import Request

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound

log = logging.getLogger("habana_tf")

FAILED_PRECONDITION = 9
MOST_KEPT = 1024
"""Programs whose recipes are in memory, and keys that came to them."""
MOST_BYTES = 64 << 20
"""Machine code, constants and descriptions of the recipes in memory."""

_NOTED_SECONDS = 1.0
"""A compilation that takes longer is logged in one line, since a user waits for it."""


class CompileForbidden(RuntimeError):
    """HABANA_SIM_COMPILE=forbid, and a recipe is not in the cache."""

    status_code = FAILED_PRECONDITION


class StaleRecipe(Exception):
    """A stored recipe cannot be bound and was forgotten: the next request for it compiles one."""


@dataclass
class _Flight:
    """Threads that look for one digest or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class RecipeMemory:
    """Recipes by digest, those used last: of a program its recipe, or as text why there is none; of any other key the
    digest of its program."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = threading.Lock()
        self._made: OrderedDict[str, tuple[Recipe | str, int]] = OrderedDict()
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._flights: dict[str, _Flight] = {}
        self._refused: set[str] = set()

    def forget(self, made: Recipe) -> None:
        """Of a recipe's program no stored recipe is taken from now on."""
        with self._lock:
            for program in [p for p, (kept, _) in self._made.items() if kept is made]:
                self._bytes -= self._made.pop(program)[1]
                self._refused.add(program)

    def refuses(self, program: str) -> bool:
        """Whether a stored recipe of a program was forgotten."""
        with self._lock:
            return program in self._refused

    def find(self, digest: str) -> Recipe | None:
        """The recipe of a key or a program, if it is here. Raises Unfit for one that cannot be compiled."""
        with self._lock:
            if (program := self._keys.get(digest)) is not None:
                self._keys.move_to_end(digest)
            if (kept := self._made.get(program or digest)) is None:
                return None
            self._made.move_to_end(program or digest)
        made, _ = kept
        if isinstance(made, str):
            process_cache.CACHE.stats.add(known_failures=1)
            raise Unfit(made)
        return made

    def keep(self, key: str, program: str, made: Recipe | str) -> None:
        """Remembers what was made of a program, and that a key comes to it."""
        nbytes = 0 if isinstance(made, str) else len(made.code) + len(made.constants) + len(made.described)
        with self._lock:
            if key != program:
                self._keys[key] = program
            if program not in self._made:
                self._made[program] = made, nbytes
                self._bytes += nbytes
            while len(self._keys) > self._most:
                self._keys.popitem(last=False)
            while len(self._made) > self._most or (self._bytes > self._most_bytes and len(self._made) > 1):
                _, (_, gone) = self._made.popitem(last=False)
                self._bytes -= gone

    @contextmanager
    def alone(self, digest: str) -> Iterator[None]:
        """Lets one thread at a time look for a digest."""
        with self._lock:
            flight = self._flights.setdefault(digest, _Flight())
            flight.users += 1
        try:
            with flight.lock:
                yield
        finally:
            with self._lock:
                flight.users -= 1
                if not flight.users:
                    del self._flights[digest]


_memory = RecipeMemory()


def known(program: Program, goal: Target) -> Recipe | None:
    """The recipe of this process for a program, if it is there."""
    return _memory.find(program_key(program, goal).digest)


def recipe_of(key: Key, source: Provenance, program: Callable[[], Program], goal: Target) -> tuple[Recipe, str]:
    """The recipe of a key, and how it came (see `recompilations.Met`). program: lowers `source`, when it has to."""
    lowered = functools.cache(garbage_collection.held(program))
    cluster = source.cluster
    takes = [(a.dtype, shape) for a, shape in zip(cluster.inputs, source.shapes, strict=True)]
    return get(
        key, cluster.name, lambda: program_key(lowered(), goal).digest,
        lambda digest: _compile(key, digest, source, lowered(), goal),
        fits=lambda recipe: check(recipe, takes, [(a.dtype, None) for a in cluster.results]),
    )  # fmt: skip


def recipe_of_program(key: Key, source: Provenance, program: Program, goal: Target) -> tuple[Recipe, str]:
    """The recipe of a program, whose key this is, and how it came."""
    return get(
        key, source.cluster.name, lambda: key.digest, lambda digest: _compile(key, digest, source, program, goal),
        fits=lambda recipe: check(recipe, _tensors(program.inputs), _tensors(program.results)),
    )  # fmt: skip


def _tensors(nodes: Sequence[Node]) -> list[Tensor]:
    return [(n.dtype, n.shape) for n in nodes]


def bind_recipe(
    recipe: Recipe, dims: Sequence[int], shapes: Sequence[tuple[int, ...]] | None, request: Request, goal: Target
) -> Bound:
    """The runtime's program for a recipe. Raises StaleRecipe, after a warning, where a stored one is none for these
    sizes: what is over symbols can only be checked in numbers."""
    try:
        return bind(recipe, dims, shapes, goal, request.named())
    except (LibraryError, MemoryError, TooLarge):
        raise
    except Exception as why:  # as in `_loaded`
        if not recipe.stored:
            raise
        _memory.forget(recipe)
        log.warning("the stored recipe of %s is not used (%s): it is compiled again", recipe.name, why)
        raise StaleRecipe from why


def get(
    key: Key,
    name: str,
    program_key: Callable[[], str],
    compile: Callable[[str], Recipe],
    fits: Callable[[Recipe], None] = lambda recipe: None,
) -> tuple[Recipe, str]:
    """The recipe of a key for the cluster `name`, and how it came: "known", "cache" or "compiled".

    program_key: the digest of what is compiled, asked for where neither memory nor the recipe cache has the key.
    compile: makes the recipe of that program. fits: raises RecipeError for a stored recipe that is none of this
    cluster, which is compiled anew. Raises Unfit where `compile` does, or did before.
    """
    if (found := _memory.find(key.digest)) is None:
        with _memory.alone(key.digest):
            if (found := _memory.find(key.digest)) is None:
                try:
                    return _missed(key, name, program_key, compile, fits)
                except KnownFailure as why:
                    raise Unfit(why.reason) from None
    process_cache.CACHE.stats.add(memory_hits=1)
    return found, "known"


def _missed(
    key: Key, name: str, program_key: Callable[[], str], compile: Callable[[str], Recipe],
    fits: Callable[[Recipe], None],
) -> tuple[Recipe, str]:  # fmt: skip
    before = process_cache.CACHE.lookup(key, name)
    if before is not None and (stored := _loaded(key, before, fits)) is not None:
        return stored, "cache"
    program = program_key()
    with _memory.alone(program) if program != key.digest else nullcontext():
        if (found := _memory.find(program)) is not None:
            process_cache.CACHE.same(key, name)
            _memory.keep(key.digest, program, found)
            return found, "known"
        with process_cache.CACHE.compiling(key, program, name) as entry:
            known = entry is not None and before is not None and entry.created == before.created
            if entry is not None and not known and (stored := _loaded(key, entry, fits)) is not None:
                return stored, "cache"
            try:
                made = compile(program)
            except Unfit as why:
                _memory.keep(key.digest, program, str(why))
                raise
            _memory.keep(key.digest, program, made)
            return made, "compiled"


def _loaded(key: Key, entry: Entry, fits: Callable[[Recipe], None]) -> Recipe | None:
    """The recipe of an entry; the one in memory if another key of its program has brought it there. None, after a
    warning, for one that cannot be right."""
    program = str(entry.header.get("program", key.digest))
    made = _memory.find(program)
    if made is None:
        if _memory.refuses(program):
            return None
        try:
            made = unpack(entry.name, entry.sections)
            fits(made)
            if seal(program, entry.sections) != entry.header.get("seal"):
                raise RecipeError("its parts were not made together")
        except MemoryError:
            raise
        except (RecipeError, CodeError) as why:
            log.warning("the stored recipe of %s is not used (%s): it is compiled again", entry.name, why)
            return None
        except Exception as why:  # it holds anything: what reads it fails in any way
            log.warning("the stored recipe of %s is not understood (%r): it is compiled again", entry.name, why)
            return None
    _memory.keep(key.digest, program, made)
    return made


def _compile(key: Key, lowered: str, source: Provenance, program: Program, goal: Target) -> Recipe:
    name = source.cluster.name
    if settings.HABANA_SIM_COMPILE.get() == "forbid":
        raise CompileForbidden(
            f"{name}: no recipe in the cache for inputs {source.described()} and HABANA_SIM_COMPILE=forbid; "
            f"unset it, or point TF_RECIPE_CACHE_PATH at a cache that has the recipe"
        )
    from habana_tf._native import _bridge

    takes = recipe_summary.takes(source.cluster, program)
    start = time.perf_counter()
    try:
        with garbage_collection.held, progress.shown(f"{name} ({len(source.cluster.nodes)} ops)"):
            recipe = compile_program(program, name, goal)
    except Unfit as why:
        # Only this: an interruption, a time-out or lack of memory says nothing about the program.
        about = _about(lowered, source, program, takes)
        process_cache.CACHE.store_failure(key, name, about, str(why), time.perf_counter() - start)
        raise
    seconds = time.perf_counter() - start
    _bridge.count_recipe()
    if seconds > _NOTED_SECONDS:
        log.info("compiled %s (%d ops, %s) in %.1f s", name, len(source.cluster.nodes), takes, seconds)
    else:
        log.debug("compiled %s in %.0f ms", name, seconds * 1e3)
    recipe.described = describe_kernels(recipe)
    header: dict[str, Any] = {}
    sections: dict[str, bytes] = {}
    if process_cache.CACHE.keeps():
        header, sections = pack(recipe)
        work = recipe_summary.work(source.cluster, recipe.described)
        header.update(
            _about(lowered, source, program, takes), work=work, memory=_bytes_of(recipe), seal=seal(lowered, sections)
        )
        sections.update(source.sections())
    process_cache.CACHE.store(key, name, header, sections, seconds)
    recipe.kernels.clear()  # `described` has them, in a tenth of the memory
    return recipe


def _about(lowered: str, source: Provenance, program: Program, takes: str) -> dict[str, Any]:
    """What an entry says of a recipe to people and tools."""
    return {
        "program": lowered,
        "tools": tools(),
        "framework": source.cluster.framework,
        "ops": dict(sorted(Counter(n.op for n in source.cluster.nodes).items())),
        "inputs": [_described(n.dtype, n.shape) for n in program.inputs],
        "outputs": [_described(n.dtype, n.shape) for n in program.results],
        "scopes": source.scopes(),
        "takes": takes,
        "precision": recipe_summary.precision(program),
    }


def _described(dtype: Any, shape: Sequence[Extent]) -> dict[str, Any]:
    return {"dtype": dtype.label, "shape": [n if isinstance(n, int) else str(n) for n in shape]}


def _bytes_of(recipe: Recipe) -> dict[str, int]:
    """The plan's exact bytes; nothing for a recipe over symbolic extents, whose plan is made per shape."""
    if any(not isinstance(b.nbytes, int) for b in recipe.buffers):
        return {"constant_bytes": len(recipe.constants)}
    _, total, peak = recipe.workspace()
    return {"workspace_bytes": total, "peak_bytes": peak, "constant_bytes": len(recipe.constants)}


def reset() -> None:
    """Forgets all."""
    global _memory
    _memory = RecipeMemory()
