"""Word Count and Market Spread in one application, each from topic and port to topic and port.

Arguments: the brokers, and the topics of lines, orders, quotes, counts and results.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

from topic_ends import application_of

import wallaroo

word_count, spread = application_of("word_count"), application_of("market_spread")


def application_setup(args):
    brokers, lines, orders, quotes, counts, results = args[-6:]
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
