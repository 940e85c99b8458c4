"""Windows of all kinds, with early results, and late messages that go to a sink of their own."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo import count_windows, hours, minutes, range_windows, session_windows

START = datetime(2026, 3, 1, tzinfo=UTC)


def application_setup(args):
    to_results, to_late = wallaroo.tcp_parse_output_addrs(args)[:2]
    source = wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)
    clicks = wallaroo.source("Clicks", source).key_by(user)
    visits = clicks.to(
        session_windows(timedelta(minutes=5))
        .with_delay(minutes(3))
        .with_event_time(time_of)
        .with_early_results(messages=2)
        .over(Pages("visit", most=3))
    )
    hourly = clicks.to(
        range_windows(minutes(12))
        .with_slide(minutes(4))
        .with_event_time(time_of)
        .with_early_results(messages=1)
        .over(Pages("minutes", most=2))
    )
    batches = clicks.to(
        count_windows(5).with_early_results(messages=2).over(Pages("batch", most=9, times=False))
    )
    ends = hours(24) * 365
    days = clicks.to(
        session_windows(ends).with_early_results(every=ends).over(Pages("never", most=1))
    )
    results = visits.merge(hourly).merge(batches).merge(days)
    late = visits.late().to(told).merge(hourly.late().to(told))
    return wallaroo.build_application(
        "clicks",
        results.to_sink(wallaroo.TCPSinkConfig(*to_results, encode)),
        late.to_sink(wallaroo.TCPSinkConfig(*to_late, encode)),
    )


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    name, minute, page = bs.decode().split()
    return (name, int(minute), page)


@wallaroo.key_extractor
def user(click):
    return click[0]


def time_of(click):
    return START + timedelta(minutes=click[1])


class Pages(Gathering[tuple[str, int, str], list[object]]):
    """The last pages of a window, at most so many."""

    def __init__(self, kind, most, times=True):
        self.kind, self.most, self.times = kind, most, times

    def name(self):
        return self.kind

    def output(self, user, clicks, window):
        times = [f"{time:%H:%M}" for time in (window.start, window.end)] if self.times else []
        pages = "".join(click[2] for click in clicks[-self.most :])
        return [self.kind, user, *times, "end" if window.is_final else "early", len(clicks), pages]


@wallaroo.computation(name="told")
def told(click):
    return ["late", *click]


@wallaroo.encoder
def encode(told):
    return " ".join(map(str, told)) + "\n"
