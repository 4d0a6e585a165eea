"""Changes of torch.profiler."""

from __future__ import annotations

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.device import profiler

PROFILER = Group(
    "profiler", "a profiler has no events of the device",
    tuple(
        Change("torch.autograd.profiler", name, make)
        for name, make in (
            ("_supported_activities", profiler.supporting),
            ("profile._start_trace", profiler.starting),
            ("profile.__exit__", profiler.ending),
            ("profile._ensure_function_events", profiler.parsing),
            ("profile.export_chrome_trace", profiler.exporting),
        )
    ), framework=PYTORCH,
)  # fmt: skip
