"""Messages: on stderr, from the level of HABANA_SIM_LOG up, unless the program set the logger up itself."""

from __future__ import annotations

import pytest

from tests.child import python

SCRIPT = """
import logging
from habana_tf import log
log.configure()
log.configure()
logger = logging.getLogger("habana_tf.some.module")
logger.info("for your information")
logger.warning("take care")
"""


@pytest.mark.parametrize(
    "level, shown",
    [
        ("info", ["habana_tf: for your information", "habana_tf: take care"]),
        ("warning", ["habana_tf: take care"]),
        ("off", []),
    ],
)
def test_the_level_decides_what_is_shown_and_nothing_twice(level: str, shown: list[str]) -> None:
    done = python(SCRIPT, HABANA_SIM_LOG=level)
    assert done.stderr.splitlines() == shown
    assert done.stdout == ""


def test_a_program_that_configured_the_logger_keeps_what_it_configured() -> None:
    done = python("import logging\nlogging.getLogger('habana_tf').setLevel(logging.ERROR)\n" + SCRIPT)
    assert done.stderr == ""
