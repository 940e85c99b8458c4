"""The documentation as a site: what a reader copies, and what a reader finds."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser, chromium
from tests.helpers import ROOT, serving

PAGES = sorted((*ROOT.glob("docs/**/*.md"), ROOT / "README.md"))
_FENCE = re.compile(r'^ *```(\w*)(?: title="[^"\n]*")?\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
NEWCOMERS_WORDS = {
    "uninstall": "installation",
    "java": "installation",
    "notebook": "notebooks",
    "order": "guarantees",
    "metrics": "observability",
    "state": "state",
    "restart": "operations",
}
"""Words, and a page that is to be among the first five."""
SUBJECTS = {
    "filter": "operators",
    "map": "operators",
    "flat map": "operators",
    "branch": "operators",
    "split": "recipes",
    "merge": "operators",
    "union": "operators",
    "broadcast": "recipes",
    "process function": "operators",
    "side output": "operators",
    "group by": "operators",
    "reduce": "operators",
    "aggregate": "operators",
    "redis": "connectors",
    "s3": "operations",
    "standard input": "connectors",
    "parquet": "connectors",
    "csv": "connectors",
    "webhook": "connectors",
    "http": "connectors",
    "postgresql": "connectors",
    "websocket": "connectors",
    "sink": "connectors",
    "source": "connectors",
    "systemd": "recipes",
    "docker compose": "recipes",
    "argparse": "recipes",
    "deduplicate": "recipes",
    "enrich": "recipes",
    "schema evolution": "state",
    "migration": "state",
    "timer": "state",
    "ttl": "state",
    "unit test": "reference/testing",
    "pytest": "reference/testing",
    "simulate": "reference/testing",
    "test": "reference/testing",
    "window": "windows",
    "session": "windows",
    "watermark": "windows",
    "late": "windows",
    "join": "joins",
    "kafka": "kafka",
    "async": "async",
    "json": "formats",
    "avro": "formats",
    "schema registry": "formats",
    "dead letter": "dead-letters",
    "key": "keys",
    "exactly once": "guarantees",
    "backpressure": "guarantees",
    "install": "installation",
    "jupyter": "notebooks",
    "dashboard": "observability",
    "grafana": "observability",
    "prometheus": "observability",
    "pause": "observability",
    "opentelemetry": "observability",
    "backup": "operations",
    "upgrade": "operations",
    "kubernetes": "kubernetes",
    "helm": "kubernetes",
    "docker": "recipes",
    "autoscaling": "kubernetes",
    "latency": "performance",
    "throughput": "performance",
    "bytewax": "migrating-from-bytewax",
    "flink": "operators",
    "faust": "migrating-from-faust",
    "quix": "migrating-from-quix-streams",
    "mongodb": "connectors",
    "rabbitmq": "connectors",
    "coprocessfunction": "operators",
    "migrating": "migrating",
    "crash": "guarantees",
    "concepts": "concepts",
    "troubleshooting": "troubleshooting",
    "scale": "kubernetes",
    "kstream": "operators",
}
"""Words, and the page for them, which is to be the first."""


def commands(block: str) -> list[str]:
    """The commands of a block of a console, with the lines that continue them."""
    found: list[str] = []
    continues = False
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(line.removeprefix("$ "))
        elif continues:
            found[-1] += f"\n{line}"
        continues = bool(found) and line.endswith("\\") and (continues or line.startswith("$ "))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_only_blocks_of_a_console_have_prompts_and_no_command_has_gaps(page: Path) -> None:
    for language, text in _FENCE.findall(page.read_text()):
        block = re.sub("^ *(?=[$])", "", text, flags=re.MULTILINE)
        if language == "console":
            assert not [command for command in commands(block) if "…" in command]
        else:
            assert not re.search(r"^[$] ", block, re.MULTILINE), f"a prompt in: {block}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built documentation."""
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(built)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    handler = functools.partial(_Quiet, directory=str(built))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        yield f"http://{address}"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def reader(site: str) -> Iterator[Page]:
    with browser() as started:
        context = started.new_context(base_url=site)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context.new_page()


needs_chromium = pytest.mark.skipif(
    chromium() is None, reason="there is no Chromium on this machine"
)


@needs_chromium
@pytest.mark.parametrize("name", ["tutorial", "kafka", "operations"])
def test_the_copy_button_copies_commands_without_prompts_and_outputs(
    reader: Page, name: str
) -> None:
    blocks = [
        commands(re.sub("^ *(?=[$])", "", block, flags=re.MULTILINE))
        for language, block in _FENCE.findall((ROOT / "docs" / f"{name}.md").read_text())
        if language == "console"
    ]
    reader.goto(f"/{name}.html")
    shown = reader.locator(".language-console")
    assert shown.count() == len(blocks) > 0
    for number, typed in enumerate(blocks):
        block = shown.nth(number)
        button = block.locator("[data-clipboard-target], [data-md-type=copy]")
        if not typed:
            assert button.count() == 0 or not button.first.is_visible()
            continue
        block.hover()
        button.first.click()
        assert reader.evaluate("navigator.clipboard.readText()") == "\n".join(typed)


@needs_chromium
def test_search_finds_the_words_of_a_newcomer(reader: Page) -> None:
    reader.goto("/index.html")
    missed = {}
    for word, page in NEWCOMERS_WORDS.items():
        found = results(reader, word)
        if f"{page}.html" not in found[:5]:
            missed[word] = found
    assert not missed


@needs_chromium
def test_search_shows_the_page_about_a_subject_first(reader: Page) -> None:
    reader.goto("/index.html")
    others = {}
    for word, page in SUBJECTS.items():
        found = results(reader, word)
        if found[:1] != [f"{page}.html"]:
            others[word] = found
    assert not others


def results(reader: Page, words: str) -> list[str]:
    """The pages that the search shows for *words*, the best first."""
    field = reader.locator("input.md-search__input")
    links = reader.locator("a.md-search-result__link")
    field.click()
    field.fill("")
    field.press("End")  # the search listens to keys
    expect(links).to_have_count(0)
    field.fill(words)
    field.press("End")
    links.first.wait_for(state="attached")
    pages: list[str] = links.evaluate_all(
        "links => links.map(link => new URL(link.href).pathname.slice(1))"
    )
    return list(dict.fromkeys(pages))
