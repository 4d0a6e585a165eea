"""Many short-lived processes on one cache directory, made by fork from this one, which has no threads.

    python -m tests.cache.hammer kill|delete|evict|once DIRECTORY

Prints one line of JSON. Each child ends by os._exit, so nothing of the parent runs twice.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.journal import Journal
from habana_tf.cache.key import Key
from habana_tf.cache.reader import Options
from habana_tf.cache.recipe_cache import RecipeCache

CALLS = ("open", "close", "fstat", "stat", "mkdir", "listdir", "write", "rename", "unlink", "utime", "read")


def key(seed: int) -> Key:
    return Key.of([("cluster", f"graph {seed}".encode()), ("shapes", [[seed, 784]])])


def entry(seed: int, version: int = 0) -> Entry:
    """The entry of a key; versions differ in their bytes, and code says which key it belongs to."""
    k = key(seed)
    head = {"name": f"c{seed}", "digest": k.digest, "key": k.manifest(), "created": time.time(), "compile_seconds": 0.1}
    code = f"{seed} {version} ".encode() + random.Random(seed).randbytes(20_000)
    return Entry({**head, "ops": {"MatMul": 1}}, {"object": code})


def right(found: Entry | None, seed: int) -> bool:
    """Whether an entry that was read is one that was written for this key."""
    return found is None or (
        found.digest == key(seed).digest
        and found.sections["object"].split(b" ", 2)[0] == str(seed).encode()
        and found.sections["object"][-20_000:] == random.Random(seed).randbytes(20_000)
    )


def child(work: Callable[[], object]) -> int:
    """Forks a process that does the work; 0 is its exit code if that ended well."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        print(f"child: {error!r}", file=sys.stderr)
    finally:
        os._exit(code)


def wait(process: int) -> int:
    """The exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def die_at(step: int) -> None:
    """Kills this process at the `step`-th call of any function in CALLS; a write is left half done."""
    left = [step]

    def wrap(name: str) -> None:
        function = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if name == "write":
                    function(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        setattr(os, name, call)

    for name in CALLS:
        wrap(name)


def kill(root: str) -> dict[str, Any]:
    """Kills a writer at every call it makes: of a first write, of one over an old entry, while evicting, in the
    journal. After each one reads everything, takes the lock and writes."""
    killed, wrong, kinds = 0, 0, {}
    # 20 kB an entry: the limit lets three stay, so that every write of the third kind evicts.
    cases: dict[str, tuple[Options, int]] = {
        "first": (Options(), 0),
        "over": (Options(), 1),
        "evicting": (Options(limit=60_000, minimum_age=0.0), 6),
        "journal": (Options(), 2),
    }
    for case, (options, before) in cases.items():
        step = 1
        while True:
            shutil.rmtree(root, ignore_errors=True)
            for seed in range(before):
                Store(root).write(entry(seed))
                time.sleep(0.001)

            def work(case: str = case, options: Options = options, step: int = step) -> None:
                store = Store(root, options=options)
                journal = Journal()
                journal.add("miss", "c9", key(9).digest, missed=key(9))
                die_at(step)
                if case == "journal":
                    journal.flush(store, {"misses": 1})
                else:
                    store.write(entry(0, version=1))
                    store.read(key(0).digest)

            if wait(child(work)) != -signal.SIGKILL:
                break
            killed, step = killed + 1, step + 1
            stats = Stats()
            store = Store(root, stats)
            found = [store.read(key(seed).digest) for seed in range(before or 1)]
            wrong += not all(right(e, seed) for seed, e in enumerate(found))
            wrong += case in ("over", "journal") and None in found  # nothing lost
            with store.compiling(key(0).digest, 5.0) as taken:
                wrong += not taken
            wrong += not store.write(entry(0, version=2)) or store.read(key(0).digest) is None
            counts = stats.counts()
            wrong += bool(counts.corrupt or counts.refused or counts.failures)
        kinds[case] = step - 1
    return {"killed": killed, "wrong": wrong, "kinds": kinds}


def delete(root: str) -> dict[str, Any]:
    """Eight processes look up, compile and store while another one deletes the directory again and again."""
    os.environ["TF_RECIPE_CACHE_PATH"] = root
    until = time.monotonic() + 3.0

    def use(number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < until:
            recipes = RecipeCache(lock_timeout=5.0)
            for _ in range(5):
                seed = draw.randrange(20)
                found = recipes.lookup(key(seed))
                if found is None:
                    with recipes.compiling(key(seed)) as found:
                        if found is None:
                            e = entry(seed)
                            found = recipes.store(key(seed), e.name, {}, e.sections, 0.1)
                assert right(found, seed)
            recipes.close()
            counts = recipes.stats.counts()
            assert not (counts.corrupt or counts.refused), counts

    def destroy() -> None:
        while time.monotonic() < until:
            shutil.rmtree(root, ignore_errors=True)
            time.sleep(0.003)

    codes = [wait(p) for p in [*(child(lambda n=n: use(n)) for n in range(8)), child(destroy)]]
    return {"codes": codes}


def evict(root: str) -> dict[str, Any]:
    """Eight processes write and read 40 keys where six fit; what one reads, another removes."""
    options = Options(limit=150_000, minimum_age=0.0)
    report = os.path.join(os.path.dirname(root), "evicted-")

    def use(number: int) -> None:
        draw, stats = random.Random(number), Stats()
        store = Store(root, stats, options)
        for _ in range(100):
            seed = draw.randrange(40)
            found = store.read(key(seed).digest)
            assert right(found, seed)
            if found is None:
                assert store.write(entry(seed))
        counts = stats.counts()
        assert not (counts.corrupt or counts.refused or counts.failures), counts
        with open(report + str(number), "w") as file:
            file.write(str(counts.evicted))

    codes = [wait(p) for p in [child(lambda n=n: use(n)) for n in range(8)]]
    evicted = 0
    for number in range(8):
        with open(report + str(number)) as file:
            evicted += int(file.read())
    left = sum(row.file_bytes for row in Store(root).listing())
    return {"codes": codes, "evicted": evicted, "left": left}


def once(root: str) -> dict[str, Any]:
    """Sixteen processes want one recipe at the same moment."""
    os.environ["TF_RECIPE_CACHE_PATH"] = root
    read, write = os.pipe()
    start = time.monotonic() + 0.3

    def use() -> None:
        recipes = RecipeCache()
        time.sleep(max(0.0, start - time.monotonic()))
        found = recipes.lookup(key(1))
        if found is None:
            with recipes.compiling(key(1)) as found:
                if found is None:
                    time.sleep(0.5)
                    found = recipes.store(key(1), "c1", {}, entry(1).sections, 0.5)
        assert right(found, 1)
        recipes.close()
        os.write(write, json.dumps(recipes.stats.to_json()).encode() + b"\n")

    codes = [wait(p) for p in [child(use) for _ in range(16)]]
    os.close(write)
    with os.fdopen(read) as lines:
        return {"codes": codes, "counts": [json.loads(line) for line in lines]}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    what = {"kill": kill, "delete": delete, "evict": evict, "once": once}[sys.argv[1]]
    print(json.dumps(what(sys.argv[2])))
