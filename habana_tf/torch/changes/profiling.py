"""Changes of torch.profiler."""

from __future__ import annotations

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch import profiler

PROFILER = Group(
    "profiler", "a profiler has no events of the device",
    tuple(
        Change("torch.autograd.profiler", f"profile.{name}", make)
        for name, make in (
            ("_start_trace", profiler.starting),
            ("__exit__", profiler.ending),
            ("_ensure_function_events", profiler.parsing),
            ("export_chrome_trace", profiler.exporting),
        )
    ), host=PYTORCH,
)  # fmt: skip
