"""Every panel of the dashboard in a real browser, compared with a known stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import browser, chromium, tile
from tests.dashboard.feed import AWAY, START, Feed, serving
from tests.helpers import wait_until
from tests.spark.harness import APPS, Receiver, run, send
from wallaroo.gateway.explaining import Explaining
from wallaroo.metrics.samples import HotKey
from wallaroo.run.background_run import BackgroundRun

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine"),
]

SOURCE = "Split and Count"
MESSAGES = 2_000
WORDS = 3 * MESSAGES
PATIENCE_MS = 60_000
PLACE = re.compile(r"application\.py:\d+")
TOKEN = "let me change things"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundRun]:
    """Word Count after a stream with three messages that are not UTF-8."""
    state = tmp_path_factory.mktemp("state")
    token = state / "token"
    token.write_text(TOKEN)
    options = ("--ui-token-file", str(token))
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, state, options=options) as running,
    ):
        send(running.sources[SOURCE], [b"zebra acorn zebra"] * MESSAGES + [b"\xff<b>"] * 3)
        receiver.wait_for(WORDS)
        running.wait_until_processed()
        yield running
        assert running.stop() == 0  # whatever its viewers do


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(running: BackgroundRun, chrome: Browser) -> Iterator[Page]:
    """The dashboard; an error in its console fails the test."""
    wrong: list[str] = []
    context = chrome.new_context(
        viewport={"width": 1300, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(running.wait_for_event("ready", 0)["dashboard"])
    expect(page.locator("#state")).to_have_text("idle")
    # The first figures may be a second old, from before the stream.
    wait_until(lambda: tile(page, "dead-lettered") == "3", "figures from after the stream")
    yield page
    context.close()
    assert not wrong


def test_it_says_what_runs_and_how(page: Page) -> None:
    expect(page).to_have_title("Word Count Application · Wallaroo")
    expect(page.get_by_role("heading", level=1)).to_have_text("Word Count Application")
    wait_until(lambda: tile(page, "workers").split() == ["2", "of", "2"], "all workers")
    wait_until(lambda: tile(page, "backlog").startswith("0"), "an empty backlog")
    wait_until(lambda: tile(page, "connections") == "0", "no connection")


def test_the_graph_has_every_part_and_its_figures(page: Page) -> None:
    assert page.locator("#graph [data-node]").count() == 5
    assert page.locator("#graph .flow").count() == 3
    for rate in page.locator("#graph .rate").all():
        expect(rate).to_have_text(re.compile(r"^[\d.,]+( [kM])?/s$"))
    store = page.locator("#graph .store")
    expect(store).to_contain_text("word totals")
    expect(store).to_contain_text("2 entities")
    expect(page.locator("#graph .source")).to_contain_text("3 dead-lettered")
    step = page.locator("#graph .step", has_text="split into words")
    expect(step).to_contain_text("µs per message")
    expect(step.locator("title")).to_contain_text("application.py:")


def test_the_charts_draw_and_say_what_they_show(page: Page) -> None:
    for chart in ("rate", "latency", "backlog"):
        expect(page.locator(f"#{chart} canvas")).to_be_visible()
    rate = page.locator("#rate")
    expect(rate).to_have_attribute(
        "aria-label", re.compile("^Split and Count: .* messages per second")
    )
    expect(page.locator("#latency")).to_have_attribute("aria-label", re.compile("^p50 .*p99"))
    expect(page.locator("#backlog")).to_have_attribute("aria-label", re.compile("^0 messages"))
    drawn = page.evaluate(
        "() => document.querySelector('#rate canvas').getContext('2d')"
        ".getImageData(0, 0, 300, 150).data.some((value) => value > 0)"
    )
    assert drawn


def test_what_is_published_is_shown_with_its_phases(page: Page) -> None:
    row = page.locator("#publications tbody tr").last
    phases = re.compile("^run .*, commit ")
    expect(row.locator("[role=img]")).to_have_attribute("aria-label", phases)
    counts = page.locator("#publications tbody tr td:nth-child(2)").all_inner_texts()
    shown = sum(int(text.replace(",", "")) for text in counts)
    assert 0 < shown <= MESSAGES + 3  # of the last twelve
    expect(page.locator("#publications-title")).to_have_text("Last publications")
    expect(page.locator("#epochs")).to_contain_text("This epoch began ")


def test_sources_sinks_and_keys_are_counted(page: Page) -> None:
    rate = re.compile("/s$")
    names = [re.compile(rf"^{name}127\.0\.0\.1:\d+$") for name in (SOURCE, f"→ {SOURCE}")]
    source, sink = page.locator("#ends tbody tr").all()
    expect(source.locator("td")).to_have_text([names[0], rate, f"{MESSAGES + 3:,}", "0"])
    expect(sink.locator("td")).to_have_text([names[1], rate, f"{WORDS:,}", "0"])
    expect(page.locator("#keys tbody td:first-child")).to_have_text(["'z'", "'a'"])
    expect(page.locator("#keys tbody td:nth-child(4)")).to_have_text(["66.7 %", "33.3 %"])


def test_a_key_can_be_copied_with_all_its_spaces(chrome: Browser, feed: Feed) -> None:
    feed.set(hot_keys=[HotKey("symbols", "b'   S'", 1.0, 1.0)])
    with serving(feed) as dashboard:
        dashboard.viewer.snapshot(START)
        page = chrome.new_page()
        page.goto(dashboard.server.url)
        key = page.locator("#keys code")
        expect(key).to_have_count(1)
        assert key.inner_text() == "b'   S'"
        page.close()


def test_errors_have_their_place_and_their_message(page: Page) -> None:
    row = page.locator("#errors tbody tr")
    expect(row.locator("td").first).to_have_text("3")
    expect(row.locator("time")).to_have_count(2)
    for part in (PLACE, f"{SOURCE} · decoder", "UnicodeDecodeError"):
        expect(row).to_contain_text(part)
    expect(row).to_contain_text("<b>")  # as text: no part of a message is interpreted as HTML


def test_the_keyboard_changes_the_theme_and_the_page_remembers_it(page: Page) -> None:
    html, dark = page.locator("html"), page.get_by_role("button", name="Dark")
    expect(html).to_have_attribute("data-theme", "light")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    for name in ("Pause…", "Light", "Dark"):
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name=name)).to_be_focused()
    page.keyboard.press("Enter")
    expect(html).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(html).to_have_attribute("data-theme", "dark")
    expect(dark).to_have_attribute("aria-pressed", "true")


def test_a_narrow_screen_needs_no_scrolling_to_the_side(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 360")
    page.wait_for_function("() => document.querySelector('#rate canvas').clientWidth <= 340")


def test_errors_and_dead_letters_can_be_read_on_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for table in ("#errors", "#letters"):
        cells = page.locator(f"{table} tbody td:visible")
        expect(cells.first).to_be_visible()
        boxes = [box for cell in cells.all() if (box := cell.bounding_box())]
        assert max(box["x"] + box["width"] for box in boxes) <= 390


def test_nothing_comes_from_elsewhere(page: Page, running: BackgroundRun) -> None:
    origin = running.wait_for_event("ready", 0)["dashboard"]
    loaded = page.evaluate("() => performance.getEntriesByType('resource').map((r) => r.name)")
    assert loaded
    assert all(name.startswith(origin) for name in loaded)


def test_a_page_of_another_name_is_refused(page: Page, running: BackgroundRun) -> None:
    origin = running.wait_for_event("ready", 0)["dashboard"]
    answer = page.request.get(origin, headers={"Host": "evil.example"})
    assert answer.status == 400


def test_a_key_is_looked_up_in_the_state(page: Page) -> None:
    page.get_by_label("key", exact=True).fill("z")
    page.keyboard.press("Enter")
    result = page.locator("#state-result")
    expect(result).to_have_text(re.compile(r"^1 entity found, as of offset [\d,]+\.$"))
    entity = page.get_by_role("region", name="Entity of word totals")
    assert json.loads(entity.inner_text()) == {
        "$class": "application:WordTotals",
        "word_totals": {"zebra": 2 * MESSAGES},
    }
    expect(page.locator("#history-command")).to_have_text(re.compile("^wallaroo explain .* z "))
    page.get_by_label("dashboard's token").fill(TOKEN)
    page.get_by_role("button", name="Run it here").click()
    history = page.get_by_role("region", name="History of the key")
    expect(history).to_contain_text(f".word_totals['zebra'] {2 * MESSAGES - 1} → {2 * MESSAGES}")
    page.get_by_label("key", exact=True).fill("<b>")
    page.get_by_role("button", name="Look up").click()
    expect(result).to_have_text(re.compile(r"^No entity has the key <b>, as of offset "))
    expect(entity).to_have_count(0)


def test_on_a_cluster_the_gateway_makes_the_history_of_a_key(chrome: Browser, feed: Feed) -> None:
    feed.explained = Explaining("/app", (), Path("/edge"), is_here=False)
    feed.explain = lambda key: {"text": f"of <b>{key}", "notes": "note: not all"}
    with serving(feed, TOKEN) as dashboard:
        page = chrome.new_page()
        page.goto(dashboard.server.url)
        page.get_by_label("key", exact=True).fill("z")
        page.keyboard.press("Enter")
        history = page.locator("#history")
        expect(history).to_contain_text("In the gateway's pod, wallaroo explain /app z --state-dir")
        expect(history).to_contain_text("as far back as the log goes")
        page.get_by_label("dashboard's token").fill(TOKEN)
        page.get_by_role("button", name="Run it there").click()
        expect(page.locator("#history-text")).to_have_text("of <b>z")
        expect(page.locator("#history-result")).to_have_text("note: not all")
        feed.set(away=True)
        page.get_by_role("button", name="Run it there").click()
        expect(page.locator("#history-result")).to_have_text(AWAY)
        expect(page.locator("#history-text")).to_be_hidden()
        page.close()


def test_dead_letters_are_listed_and_their_payloads_shown_on_demand(page: Page) -> None:
    letters = page.locator("#letters")
    expect(letters.get_by_role("button")).to_have_count(3)
    row = letters.locator("tbody tr").first
    expect(row).to_contain_text(SOURCE)
    expect(row).to_contain_text("UnicodeDecodeError")
    expect(row).to_contain_text(PLACE)
    expect(row.locator("time")).to_have_attribute("datetime", re.compile(r"^\d{4}-"))
    row.locator("summary").click()
    traceback = row.get_by_role("region", name=re.compile("^Traceback of dead letter"))
    expect(traceback).to_contain_text('application.py", line ')
    opener = page.get_by_role("button", name="Payload of dead letter 2")
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    content = page.get_by_role("region", name="Content of dead letter 2")
    expect(content).to_have_text(r"\xff<b>")
    with page.expect_download() as saved:
        page.get_by_role("link", name="download all 4 bytes").click()
    assert saved.value.path().read_bytes() == b"\xff<b>"
    opener.click()
    expect(content).to_be_hidden()
