"""Rewrites the table of metrics in docs/reference/metrics.md from the catalogue."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from wallaroo.metrics.catalogue import METRICS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "metrics.md"
_HEAD = "| metric | labels | what it is |\n|---|---|---|\n"


def page() -> str:
    """The page with the table as it should be."""
    rows = "".join(
        f"| `{metric.name}` | {', '.join(f'`{label}`' for label in metric.labels)} | "
        f"{metric.help} ({metric.kind}) |\n"
        for metric in METRICS.values()
    )
    text = PAGE.read_text()
    return re.sub(re.escape(_HEAD) + r"(.+\n)*", lambda _: _HEAD + rows, text, count=1)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(page() != PAGE.read_text())
    PAGE.write_text(page())
