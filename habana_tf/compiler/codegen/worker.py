"""A worker process that compiles modules: `python -m habana_tf.compiler.codegen.worker`.

It imports LLVM but not TensorFlow, and is spawned, not forked. It reads requests from stdin and writes answers to
stdout:

    {"cpu": ..., "features": ..., "triple": ..., "bytes": n}  n bytes of LLVM IR
        ->    {"bytes": n, "error": null}  n bytes

each header on a line of its own, after an initial empty line that says that it is ready. It ends at the end of stdin,
or after `IDLE` seconds without a request.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

IDLE = 120.0
"""Seconds without a request after which a worker ends."""


def main() -> None:
    from habana_tf.compiler.codegen.machine import emit_object, prepare

    prepare()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # handled by the requesting process
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # LLVM's output must not mix with answers
    answers.write(b"\n")
    answers.flush()
    while select.select([requests], [], [], IDLE)[0]:
        line = requests.readline()
        if not line:
            return
        request = json.loads(line)
        ir = requests.read(request["bytes"]).decode()
        try:
            code, error = emit_object(ir, request["cpu"], request["features"], request["triple"]), None
        except Exception as why:
            code, error = b"", f"{type(why).__name__}: {why}"
        answers.write(json.dumps({"bytes": len(code), "error": error}).encode() + b"\n" + code)
        answers.flush()


if __name__ == "__main__":
    main()
