"""A real browser without a window: Chromium, where the machine has it (Debian's package `chromium`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

_QUIET = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
          "--disable-component-update --disable-sync --hide-scrollbars").split()  # fmt: skip


class Browser:
    """profile: an empty directory of its own."""

    def __init__(self, binary: str, profile: Path) -> None:
        self._binary, self._profile = binary, profile

    def _run(self, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [self._binary, *_QUIET, f"--user-data-dir={self._profile}", *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)

    def document(self, page: Path) -> tuple[str, str]:
        """The page as the browser understood it, and what it had to complain about."""
        done = self._run(page, "--dump-dom", "--enable-logging=stderr", "--v=0")
        return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)

    def screenshot(self, page: Path, to: Path, width: int, height: int) -> bytes:
        """The page's upper part as PNG, at half its size."""
        self._run(page, f"--window-size={width},{height}", f"--screenshot={to}", "--force-device-scale-factor=0.5")
        return to.read_bytes()
