"""Word Count, from topic or port to topic or port."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

from topic_ends import Ends, application_of

import wallaroo

word_count = application_of("word_count")


def application_setup(args):
    ends = Ends(args)
    builder = wallaroo.ApplicationBuilder("Word Count")
    builder.new_pipeline("Lines", ends.source(word_count.decoder)).to_parallel(word_count.split)
    builder.to_state_partition(
        word_count.count_word, word_count.WordTotals, "word totals", word_count.first_letter
    )
    builder.to_sink(ends.sink(word_count.encoder, with_word))
    return builder.build()


def with_word(counted):
    return word_count.encoder(counted), counted[0]
