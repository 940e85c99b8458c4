"""Word Count and Market Spread in one application, each from topic and port to topic and port.

Arguments: the folder of the applications, the brokers, and the topics of lines, orders, quotes,
counts and results.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import importlib.util
import sys
from pathlib import Path

import wallaroo


def application_setup(args):
    apps, brokers, lines, orders, quotes, counts, results = args[-7:]
    word_count = _application(Path(apps, "word_count"))
    spread = _application(Path(apps, "market_spread"))
    ports = wallaroo.tcp_parse_input_addrs(args)
    (count_host, count_port), (result_host, result_port) = wallaroo.tcp_parse_output_addrs(args)

    def with_key(counted):
        return word_count.encoder(counted), counted[0]

    def with_symbol(result):
        return spread.order_result_encoder(result), result.order.symbol

    builder = wallaroo.ApplicationBuilder("both")
    counted = [
        wallaroo.KafkaSinkConfig(counts, brokers, wallaroo.encoder(with_key)),
        wallaroo.TCPSinkConfig(count_host, count_port, word_count.encoder),
    ]
    rejected = [
        wallaroo.KafkaSinkConfig(results, brokers, wallaroo.encoder(with_symbol)),
        wallaroo.TCPSinkConfig(result_host, result_port, spread.order_result_encoder),
    ]
    for name, source in {
        "Lines in topic": wallaroo.KafkaSourceConfig(lines, brokers, word_count.decoder),
        "Lines at port": wallaroo.TCPSourceConfig(*ports[0], word_count.decoder),
    }.items():
        builder.new_pipeline(name, source).to_parallel(word_count.split)
        builder.to_state_partition(
            word_count.count_word, word_count.WordTotals, "totals", word_count.first_letter
        ).to_sinks(counted)
    for name, source in {
        "Orders in topic": wallaroo.KafkaSourceConfig(orders, brokers, spread.order_decoder),
        "Orders at port": wallaroo.TCPSourceConfig(*ports[1], spread.order_decoder),
    }.items():
        builder.new_pipeline(name, source).to_state_partition(
            spread.check_order, spread.SymbolData, "symbol-data", spread.symbol_of
        ).to_sinks(rejected)
    for name, source in {
        "Quotes in topic": wallaroo.KafkaSourceConfig(quotes, brokers, spread.market_data_decoder),
        "Quotes at port": wallaroo.TCPSourceConfig(*ports[2], spread.market_data_decoder),
    }.items():
        builder.new_pipeline(name, source).to_state_partition(
            spread.update_market_data, spread.SymbolData, "symbol-data", spread.symbol_of
        ).done()
    return builder.build()


def _application(folder):
    """The module of an application: both have the same name."""
    name = f"{folder.name}_application"
    if name not in sys.modules:
        sys.path.insert(0, str(folder))
        spec = importlib.util.spec_from_file_location(name, folder / "application.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
