"""After the tests of whole networks: the table of what they showed."""

from __future__ import annotations

import pytest

from tests.networks.comparison import HEAD


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    for precision in ("fp32", "bf16"):
        rows = [text for report in reports for name, text in report.user_properties if name == precision]
        if rows:
            terminalreporter.section(f"networks in {precision}")
            terminalreporter.write_line("\n".join([HEAD, *sorted(rows)]))
