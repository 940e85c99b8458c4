"""The example applications from topics to a topic, with their own functions.

Arguments: name of the application, brokers, guarantee, topic of the outputs, topics of the inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wallaroo

_APPS = Path(__file__).parents[2] / "apps"


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """The application that the first argument names."""
    name, brokers, guarantee, out, *inputs = args
    sys.path.insert(0, str(_APPS / name))
    import application as app

    def sink(encoder: Any) -> wallaroo.KafkaSinkConfig[Any]:
        return wallaroo.KafkaSinkConfig(
            out,
            brokers,
            encoder,
            transactions=guarantee == "exactly-once",
            keep_key=False,  # as in the loop, which keeps neither
            keep_timestamp=False,
        )

    builder = wallaroo.ApplicationBuilder(f"{name} on topics")
    if name == "word_count":
        (lines,) = inputs
        letters = [*app.LETTERS, app.OTHER]
        source = wallaroo.KafkaSourceConfig(lines, brokers, app.decoder)
        builder.new_pipeline("Split and Count", source).to_parallel(app.split)
        builder.to_state_partition(
            app.count_word, app.WordTotals, "word totals", app.first_letter, letters
        ).to_sink(sink(app.encoder))
        return builder.build()
    orders, quotes = inputs
    symbols = sorted(app.VALID_SYMBOLS)
    builder.new_pipeline(
        "Orders", wallaroo.KafkaSourceConfig(orders, brokers, app.order_decoder)
    ).to_state_partition(
        app.check_order, app.SymbolData, "symbol-data", app.symbol_of, symbols, other_keys="drop"
    ).to_sink(sink(app.order_result_encoder))
    builder.new_pipeline(
        "Market Data", wallaroo.KafkaSourceConfig(quotes, brokers, app.market_data_decoder)
    ).to_state_partition(
        app.update_market_data,
        app.SymbolData,
        "symbol-data",
        app.symbol_of,
        symbols,
        other_keys="drop",
    ).done()
    return builder.build()
