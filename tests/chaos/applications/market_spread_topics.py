"""Market Spread, from two topics or ports to a topic or port."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

from topic_ends import Ends, application_of

import wallaroo

spread = application_of("market_spread")


def application_setup(args):
    ends = Ends(args)
    builder = wallaroo.ApplicationBuilder("Market Spread")
    builder.new_pipeline("Orders", ends.source(spread.order_decoder)).to_state_partition(
        spread.check_order, spread.SymbolData, "symbol-data", spread.symbol_of
    ).to_sink(ends.sink(spread.order_result_encoder, with_symbol))
    builder.new_pipeline(
        "Market Data", ends.source(spread.market_data_decoder, 1)
    ).to_state_partition(
        spread.update_market_data, spread.SymbolData, "symbol-data", spread.symbol_of
    ).done()
    return builder.build()


def with_symbol(result):
    return spread.order_result_encoder(result), result.order.symbol
