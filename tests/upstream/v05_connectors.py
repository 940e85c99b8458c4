"""0.5.3 and 0.5.4: source and sink connectors, by their names."""

# ruff: noqa
# mypy: ignore-errors
import json

import wallaroo
import wallaroo.experimental


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Prices")
    ab.source_connector("price_feed", encoder=encode_price, decoder=decode_price)
    ab.sink_connector("gross_prices", encoder=encode_gross, decoder=decode_gross)
    ab.new_pipeline("Prices", "price_feed")
    ab.to(add_tax)
    ab.to_sink("gross_prices")
    return ab.build()


@wallaroo.computation(name="add tax")
def add_tax(price):
    return {"item": price["item"], "gross": round(price["net"] * 1.2, 2)}


@wallaroo.experimental.stream_message_encoder
def encode_price(price):
    return json.dumps(price).encode()


@wallaroo.experimental.stream_message_decoder
def decode_price(bs):
    return json.loads(bs)


@wallaroo.experimental.stream_message_encoder
def encode_gross(price):
    return "%(item)s %(gross).2f" % price


@wallaroo.experimental.stream_message_decoder
def decode_gross(bs):
    return bs.decode()
