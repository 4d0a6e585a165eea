"""The two commands of `make site`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.documentation.check import asked_elsewhere, pages
from tests.documentation.stage import stage


def main(command: str, folder: str) -> None:
    if command == "stage":
        stage(Path(folder))
        return
    found = asked_elsewhere(Path(folder))
    if found:
        raise SystemExit("these would be asked of another machine:\n" + "\n".join(found))
    print(f"{len(pages(Path(folder)))} pages, nothing in them is asked of another machine")


if __name__ == "__main__":
    main(*sys.argv[1:])
