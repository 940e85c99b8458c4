"""Steps of lambdas, and ready-made aggregations."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import json

import wallaroo


def application_setup(args):
    to_large, to_small = wallaroo.tcp_parse_output_addrs(args)[:2]
    (host, port), *_ = wallaroo.tcp_parse_input_addrs(args)
    orders = (
        wallaroo.source("Orders", wallaroo.TCPSourceConfig(host, port, json.loads, framing="lines"))
        .filter(lambda order: order["count"] > 0)
        .flat_map(lambda order: [{**order, "item": item} for item in order["items"]])
        .map(lambda order: (order["item"], order["count"]))
        .key_by(lambda order: order[0])
    )
    figures = wallaroo.Aggregations(
        n=wallaroo.Count(),
        mean=wallaroo.Mean(lambda order: order[1]),
        most=wallaroo.Top(2, of=lambda order: order[1]),
        all=wallaroo.Collect(lambda order: order[1]),
    )
    large, small = orders.split(lambda order: order[1] >= 10)
    fives = small.to(wallaroo.count_windows(5).over(figures.named("fives")))
    return wallaroo.build_application(
        "inline",
        large.map(str).to_sink(wallaroo.TCPSinkConfig(*to_large, encode)),
        fives.map(lambda r: f"{r.key} {r.value}").to_sink(
            wallaroo.TCPSinkConfig(*to_small, encode)
        ),
    )


encode = wallaroo.encoder(str.encode)
