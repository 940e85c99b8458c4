"""What the README shows is what happens; what applications import is in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import wallaroo
import wallaroo.testing
from wallaroo.testing import load, simulate

README = Path(__file__).parents[1] / "README.md"


def test_the_application_and_the_test_in_the_readme_work(tmp_path: Path) -> None:
    application, test = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "votes.py").write_text(application)
    test = test.replace('"votes.py"', repr(str(tmp_path / "votes.py")))
    scope: dict[str, object] = {}
    exec(compile(test, "README.md", "exec"), scope)
    assert scope["load"] is load
    assert scope["simulate"] is simulate


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [
        README,
        *README.parent.glob("docs/**/*.md"),
        *README.parent.glob("apps/*/README.md"),
    ]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_all_that_applications_import_is_in_the_reference() -> None:
    reference = (README.parent / "docs/reference/wallaroo.md").read_text()
    shown = re.findall(r"^::: wallaroo\.(\w+)$", reference, re.MULTILINE)
    assert sorted(shown) == sorted(wallaroo.__all__)
    assert "::: wallaroo.testing\n" in (README.parent / "docs/reference/testing.md").read_text()
