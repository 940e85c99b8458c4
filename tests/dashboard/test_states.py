"""Every state of the dashboard in a real browser, each with the panels that matter in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard import states
from tests.dashboard.browser import browser, chromium, tile
from tests.dashboard.feed import AWAY, PIPELINE, START, Dashboard, Feed
from tests.dashboard.states import TOKEN, shown
from wallaroo.model.application import Application

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")

PATIENCE_MS = 30_000
NARROW, WIDE = 390, 1300
CHARTS = ("rate", "latency", "backlog")
_TOO_FAINT = Path(__file__).with_name("contrast.js").read_text()
_UNREADABLE = """() => [...document.querySelectorAll('#graph text')].filter((text) => {
    const box = text.closest('.node')?.querySelector('rect, path');
    const room = box ? box.getBBox().width - 8 : text.matches('.group') ? Infinity : 90;
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    return text.getBBox().width > room || size < 9;
}).map((text) => text.textContent)"""
"""Texts of the graph that are too small, or reach beyond their place."""
Theme = Literal["light", "dark"]
_VALUES = "async () => (await import('./static/charts.js')).valuesOf('rate')"
"""What the chart of throughput shows, from second to second."""
State = Callable[[Feed, Dashboard], None]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as started:
        yield started


def nothing(_feed: Feed, _dashboard: Dashboard) -> None:
    """The run has just started."""


@contextmanager
def page_of(
    chrome: Browser,
    state: State,
    width: int = WIDE,
    theme: Theme = "light",
    feed: Feed | None = None,
    application: Application | None = None,
) -> Iterator[tuple[Page, Feed, Dashboard]]:
    """The page of a run in *state*; an error of its code fails the test."""
    wrong: list[str] = []
    feed = feed or Feed()
    with shown(feed, application) as dashboard:
        state(feed, dashboard)
        context = chrome.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            reduced_motion="reduce",
            timezone_id="UTC",
        )
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(dashboard.server.url)
        page.locator("#tiles div").first.wait_for()
        yield page, feed, dashboard
        context.close()
    assert not wrong


def rows(page: Page, table: str) -> list[list[str]]:
    found = page.locator(f"#{table} tbody tr").all_inner_texts()
    return [[" ".join(cell.split()) for cell in row.split("\t")] for row in found]


ALL = [
    *(nothing, states.busy, states.failing, states.overloaded, states.paused),
    states.starting,
    states.recovered,
]


@pytest.mark.parametrize("state", ALL, ids=lambda state: state.__name__)
def test_all_text_can_be_read_and_no_column_is_cut_off(chrome: Browser, state: State) -> None:
    """Texts have the contrast that WCAG asks for at level AA: 4.5, or 3 where they are large."""
    with page_of(chrome, state) as (page, _, _):
        for theme in ("Light", "Dark"):
            page.get_by_role("button", name=theme).click()
            expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())
            assert page.evaluate(_TOO_FAINT) == []
        for width in (WIDE, 1100, 820, 600, NARROW):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(_UNREADABLE) == []
            page.wait_for_function(f"() => document.documentElement.scrollWidth <= {width}")
            page.wait_for_function(
                "() => document.querySelector('#rate canvas').clientWidth"
                " <= document.querySelector('#rate').clientWidth"
            )
            cut = page.evaluate(
                "() => [...document.querySelectorAll('.wide:not(#graph), .panel, #tiles > div')]"
                ".filter((box) => box.scrollWidth > box.clientWidth + 1)"
                ".map((box) => box.id || box.firstElementChild.id)"
            )
            assert (width, cut) == (width, [])


def test_a_run_without_messages_says_where_they_are_expected(chrome: Browser) -> None:
    with page_of(chrome, nothing) as (page, _, _):
        for chart in CHARTS:
            expect(page.locator(f"#{chart} .nothing")).to_have_text(
                "No message has arrived at 127.0.0.1:7010 yet."
            )
            expect(page.locator(f"#{chart}")).to_have_attribute(
                "aria-label", re.compile("No message has arrived at")
            )
        panels = ("publications", "keys", "errors", "restarts", "letters")
        for panel in panels:
            expect(page.locator(f"#{panel}-panel .empty")).to_be_visible()
            expect(page.locator(f"#{panel}")).to_be_hidden()
        expect(page.locator("#letters-form")).to_be_hidden()
        expect(page.locator("#notices li")).to_have_count(0)
        expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_a_run_that_has_become_idle_says_so(chrome: Browser) -> None:
    def idle(feed: Feed, dashboard: Dashboard) -> None:
        feed.set(10, fast=100, outputs=300, delivered=300)
        dashboard.viewer.snapshot(feed.monotonic())
        for _ in range(3):
            feed.set(400)
            dashboard.viewer.snapshot(feed.monotonic())

    with page_of(chrome, idle) as (page, _, _):
        for chart in ("rate", "latency"):
            expect(page.locator(f"#{chart} .nothing")).to_have_text(
                "No message has arrived in this time."
            )
        expect(page.locator("#backlog .nothing")).to_have_text("Nothing has waited in this time.")


def test_messages_that_nobody_processes_are_the_reason_of_empty_charts(chrome: Browser) -> None:
    def stuck(feed: Feed, dashboard: Dashboard) -> None:
        feed.set(10, backlog=1, interruption="the query restarts: a worker died")
        dashboard.viewer.snapshot(feed.monotonic())

    with page_of(chrome, stuck) as (page, _, _):
        expect(page.locator("#rate .nothing")).to_have_text(
            "One message waits: the query restarts: a worker died."
        )
        expect(page.locator("#backlog .nothing")).to_be_hidden()
        expect(page.locator("#state")).to_have_text("query not running")
        expect(page.locator("#notices li")).to_have_text("The query restarts: a worker died")


def test_all_of_a_large_graph_can_be_read(chrome: Browser) -> None:
    feed = Feed()
    application = states.large(feed)
    with page_of(chrome, nothing, feed=feed, application=application) as (page, _, _):
        expect(page.locator("#graph")).to_contain_text("123 k dead-lettered · 123 k late")
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": 900})
            assert (width, page.evaluate(_UNREADABLE)) == (width, [])


def test_the_axis_of_latencies_has_a_label_for_each_decade(chrome: Browser) -> None:
    with page_of(chrome, states.recovered) as (page, _, _):
        labels = page.evaluate(
            "async () => (await import('./static/charts.js')).axisOf('latency')._values"
        )
        decades = ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]
        assert labels == [*decades, "1,000 s", "10,000 s"]


def test_latencies_are_drawn_by_decades(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, _, _):
        expect(page.locator("#latency-panel")).to_contain_text("logarithmic")
        expect(page.locator("#latency .nothing")).to_be_hidden()
        scale = page.evaluate("async () => (await import('./static/charts.js')).scaleOf('latency')")
        assert scale == {"distribution": 3, "low": pytest.approx(0.01), "high": pytest.approx(10)}


def test_hot_keys_have_their_counts_and_shares(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, _, _):
        first = page.locator("#keys tbody tr").first
        expect(first.locator("td")).to_have_text(["'t'", "word totals", "4,000", "35.0 %", ""])
        bar = first.locator(".bar").bounding_box()
        drawn = first.locator("td").last.bounding_box()
        assert bar
        assert drawn
        assert 0.25 < bar["width"] / drawn["width"] < 0.45


def test_errors_have_counts_and_times(chrome: Browser) -> None:
    with page_of(chrome, states.failing) as (page, _, _):
        first, second = rows(page, "errors")
        assert first[0] == "12,345"
        assert [first[1], first[2]] == ["Jun 15, 15:09:38", "Jun 15, 15:06:45"]
        assert first[3] == f"{PIPELINE} · decoder application.py:52"
        assert second[0] == "1"
        assert states.LONG in second[4]


def test_restarts_have_their_reasons(chrome: Browser) -> None:
    with page_of(chrome, states.failing) as (page, _, _):
        assert rows(page, "restarts") == [
            ["Jun 15, 15:08:10", "gateway", "it ended with exit code 1: the disk is full"],
            ["Jun 15, 15:07:10", "query", "the process of partition 1 was killed by SIGKILL"],
        ]
        expect(page.locator("#about")).to_contain_text("query restarted 2 times")


def test_a_sink_has_its_name_its_address_and_what_is_wrong(chrome: Browser) -> None:
    with page_of(chrome, states.failing) as (page, _, _):
        source, sink = rows(page, "ends")
        assert source[0] == f"{PIPELINE} 127.0.0.1:7010"
        assert sink[0] == f"→ {PIPELINE} 127.0.0.1:7002 Connection refused"
        expect(page.locator("#state")).to_have_text(f"sink {PIPELINE} takes nothing")
        expect(page.locator("#notices li")).to_have_text(
            f"Sink {PIPELINE} (127.0.0.1:7002) takes nothing, and its outputs wait on disk: "
            "Connection refused"
        )


def test_a_gateway_that_is_away_is_told_and_its_figures_stay(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, feed, _):
        before = tile(page, "connections")
        drawn = page.evaluate(_VALUES)
        feed.set(10, away=True)
        expect(page.locator("#state")).to_have_text("gateway away")
        expect(page.locator("#notices li")).to_have_text(re.compile(f"the figures are old: {AWAY}"))
        assert tile(page, "connections") == before
        hole = page.evaluate(_VALUES)[len(drawn) :]
        assert set(hole) == {None}
        feed.set(10, away=False)
        expect(page.locator("#notices li")).to_have_count(0)
        assert None not in page.evaluate(_VALUES)[len(drawn) + len(hole) :]
        page.reload()
        page.locator("#tiles div").first.wait_for()
        assert None in page.evaluate(_VALUES)


def test_an_overload_is_told(chrome: Browser) -> None:
    with page_of(chrome, states.overloaded) as (page, _, _):
        expect(page.locator("#state")).to_have_text("falling behind")
        assert tile(page, "backlog").split("\n")[0].startswith("2.40 M")
        expect(page.locator("#tiles .bad dt")).to_have_text("backlog")
        total = page.locator("#ends tbody tr").first.locator("td").nth(2)
        expect(total).to_have_attribute("title", re.compile(r"^2,\d{3},\d{3}$"))


def test_windows_have_their_tiles_and_late_messages_are_counted(chrome: Browser) -> None:
    feed, application = Feed(), states.windowed()
    states.with_windows(feed, application, late=37)
    with page_of(chrome, nothing, feed=feed, application=application) as (page, _, _):
        assert tile(page, "open windows").split("\n")[0].startswith("1,234")
        assert "until 2025-06-15 15:05:10 UTC" in tile(page, "open windows")
        assert tile(page, "late").startswith("37")
        expect(page.locator("#graph .stateful")).to_contain_text("37 late")
        expect(page.locator("#graph .store")).to_contain_text("1,234 open of 56 keys")


def test_the_run_is_paused_and_resumed_with_the_token_and_the_keyboard(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, feed, dashboard):
        page.get_by_role("button", name="Pause").focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Pause the run?")
        expect(dialog.get_by_label("Token of the dashboard")).to_be_focused()
        page.keyboard.type("a guess")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text("invalid token")
        assert feed.pause.since is None
        page.keyboard.press("Control+A")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        assert feed.pause.since is not None

        feed.set(1)
        dashboard.viewer.snapshot(feed.monotonic())
        expect(page.locator("#state")).to_have_text("paused")
        expect(page.locator("#notices li")).to_have_text(re.compile("^Paused since 15:09:40: "))
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("dialog", name="Resume the run?").get_by_role(
            "button", name="Resume"
        ).click()  # the token is remembered
        expect(page.get_by_role("dialog")).to_be_hidden()
        assert feed.pause.since is None
        feed.set(1)
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        expect(page.locator("#notices li")).to_have_count(0)


def test_a_pause_can_be_thought_better_of(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, feed, _):
        for key in ("Escape", "Enter"):
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Cancel").press(key)
            expect(page.get_by_role("dialog")).to_be_hidden()
        assert feed.pause.since is None


def test_a_paused_run_says_how_much_waits(chrome: Browser) -> None:
    def only_paused(feed: Feed, dashboard: Dashboard) -> None:
        feed.pause.since = START
        feed.set(10, backlog=1_500)
        dashboard.viewer.snapshot(feed.monotonic())

    with page_of(chrome, only_paused) as (page, _, _):
        expect(page.locator("#rate .nothing")).to_have_text(
            "1,500 messages wait: the run is paused."
        )
        expect(page.locator("#state")).to_have_text("paused")


def test_dead_letters_are_changed_only_with_the_token(chrome: Browser) -> None:
    with page_of(chrome, states.failing) as (page, feed, _):
        page.get_by_label("token", exact=True).fill("a guessed token")
        page.get_by_label("Select dead letter 1").press("Space")
        page.get_by_role("button", name="Replay selected").click()
        expect(page.locator("#letters-result")).to_have_text("invalid token")
        assert len(feed.dead_letters.kept) == 3


def test_dead_letters_are_dropped_and_replayed(chrome: Browser) -> None:
    with page_of(chrome, states.failing) as (page, feed, _):
        result = page.locator("#letters-result")
        page.get_by_label("token", exact=True).fill(TOKEN)
        page.get_by_role("button", name="Replay selected").click()
        expect(result).to_have_text("Select dead letters first.")
        page.get_by_label("Select dead letter 1").press("Space")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Drop selected").click()
        expect(result).to_have_text("1 dropped.")
        feed.set(1, set_aside=12_345)
        expect(page.get_by_label("Select dead letter 1")).to_have_count(0)
        page.get_by_label("Select all listed").press("Space")
        page.get_by_role("button", name="Replay selected").click()
        expect(result).to_have_text("2 replayed.")
        feed.set(1, set_aside=12_343)
        expect(page.locator("#letters")).to_be_hidden()
        assert feed.dead_letters.replayed == [2, 3]


def test_dead_letters_that_cannot_be_listed_are_not_none(chrome: Browser) -> None:
    def away(feed: Feed, dashboard: Dashboard) -> None:
        states.failing(feed, dashboard)
        feed.set(1, away=True)

    with page_of(chrome, away) as (page, feed, _):
        expect(page.locator("#letters-empty")).to_have_text(f"They cannot be listed now: {AWAY}")
        feed.set(1, away=False)
        expect(page.get_by_label("Select dead letter 1")).to_be_visible()


def test_a_run_that_goes_on_as_another_application_is_drawn_anew(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, feed, dashboard):
        application = states.windowed()
        with dashboard.watch.replaced_by(application):
            states.with_windows(feed, application)
            feed.set(1)
        expect(page).to_have_title("Windows · Wallaroo")
        expect(page.locator("#pipeline option")).to_have_text([states.WINDOWED])
        expect(page.locator("#rate .nothing")).to_have_text(re.compile("^No message has arrived"))


def test_the_page_says_when_the_run_is_gone(chrome: Browser) -> None:
    with page_of(chrome, states.busy) as (page, _, dashboard):
        expect(page.locator("#state")).to_have_text("running")
        dashboard.watch.stop()
        dashboard.server.close()
        expect(page.locator("#state")).to_have_text("not connected")


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_is_light_dark_or_the_systems(chrome: Browser, system: Theme) -> None:
    with page_of(chrome, states.busy, theme=system) as (page, _, _):
        html, group = page.locator("html"), page.get_by_role("group", name="Theme")

        pressed = group.locator("[aria-pressed=true]")
        expect(pressed).to_have_text(["As the system"])
        expect(html).to_have_attribute("data-theme", system)
        for name, theme in (("Dark", "dark"), ("Light", "light")):
            group.get_by_role("button", name=name).press("Enter")
            expect(html).to_have_attribute("data-theme", theme)
            page.reload()
            expect(html).to_have_attribute("data-theme", theme)
            expect(pressed).to_have_text([name])
        group.get_by_role("button", name="As the system").press("Enter")
        other: Theme = "light" if system == "dark" else "dark"
        page.emulate_media(color_scheme=other)
        expect(html).to_have_attribute("data-theme", other)
        page.reload()
        expect(html).to_have_attribute("data-theme", other)
        expect(pressed).to_have_text(["As the system"])
