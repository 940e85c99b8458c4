"""Messages keep their types from step to step; a step that does not fit is told."""

from collections.abc import Iterator
from typing import NamedTuple

import wallaroo


class Order(NamedTuple):
    symbol: str
    amount: int


class Total:
    def __init__(self) -> None:
        self.amount = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Order:
    return Order(payload.decode(), 1)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_some(payload: bytes) -> str | None:
    return payload.decode() or None


@wallaroo.computation(name="large")
def large(order: Order) -> Order | None:
    return order if order.amount > 10 else None


@wallaroo.computation(name="symbol")
def symbol(order: Order) -> str:
    return order.symbol


@wallaroo.computation(name="shown")
def shown(thing: object) -> str:
    return repr(thing)


@wallaroo.computation_multi(name="letters")
def letters(text: str) -> list[str]:
    return list(text)


@wallaroo.computation_multi(name="sizes")
def sizes(text: str) -> Iterator[int | None]:
    yield len(text)


@wallaroo.computation_multi(name="no iterable")  # E: Value of type variable "Results"
def no_iterable(text: str) -> int:
    return len(text)


@wallaroo.key_extractor
def by_symbol(order: Order) -> str:
    return order.symbol


@wallaroo.key_extractor  # E: Value of type variable "Key" of "key_extractor" cannot be "list[str]"
def unhashable(order: Order) -> list[str]:
    return [order.symbol]


@wallaroo.state_computation(name="add", state=Total)
def add(order: Order, total: Total) -> int | None:
    total.amount += order.amount
    return total.amount


@wallaroo.state_computation(name="other state", state=Total)  # E: has incompatible type
def other_state(order: Order, total: str) -> int:
    return 0


@wallaroo.state_computation(name="no pair")  # E: has incompatible type
def no_pair(order: Order, total: Total) -> int:
    return 0


@wallaroo.state_computation(name="pair")
def pair(order: Order, total: Total) -> tuple[int, bool]:
    return (order.amount, False)


@wallaroo.state_computation_multi(name="list twice", state=Total)
def twice(order: Order, total: Total) -> list[Order]:
    return [order, order]


@wallaroo.encoder
def encode(amount: int) -> str:
    return f"{amount}\n"


@wallaroo.encoder  # E: Value of type variable "Encoded" of "encoder" cannot be "int"
def encode_wrong(amount: int) -> int:
    return amount


# A decorated function is called as it was written.
reveal_type(letters("ab")[0])  # R: str
reveal_type(add(Order("A", 1), Total()))  # R: int | None
reveal_type(pair(Order("A", 1), Total()))  # R: tuple[int, Any]
reveal_type(decode(b"A"))  # R: Order
large("no order")  # E: Argument 1 to "__call__" of "Decorated" has incompatible type "str"

# From step to step.
orders = wallaroo.source("Orders", wallaroo.TCPSourceConfig("", 0, decode))
reveal_type(orders)  # R: Pipeline[Order]
some = wallaroo.source("Some", wallaroo.TCPSourceConfig("", 0, decode_some))
reveal_type(some)  # R: Pipeline[str]
reveal_type(orders.to(large))  # R: Pipeline[Order]
reveal_type(orders.to(symbol))  # R: Pipeline[str]
reveal_type(orders.to(shown))  # R: Pipeline[str]
reveal_type(orders.to(symbol).to(letters))  # R: Pipeline[str]
reveal_type(orders.to(symbol).to(sizes))  # R: Pipeline[int]
reveal_type(orders.key_by(by_symbol).to(add))  # R: Pipeline[int]
reveal_type(orders.key_by(by_symbol).to(twice))  # R: Pipeline[Order]
reveal_type(orders.collect().clone())  # R: Pipeline[Order]
reveal_type(orders.merge(orders.to(symbol)))  # R: Pipeline[Order | str]
reveal_type(orders.merge(orders.to(symbol)).to(shown))  # R: Pipeline[str]
reveal_type(orders.map(lambda order: order.symbol))  # R: Pipeline[str]
reveal_type(orders.map(lambda order: order if order.symbol else None))  # R: Pipeline[Order]
reveal_type(orders.filter(lambda order: order.symbol == "A"))  # R: Pipeline[Order]
reveal_type(orders.flat_map(lambda order: [order.symbol]))  # R: Pipeline[str]
reveal_type(orders.split(lambda order: order.symbol == "A")[1])  # R: Pipeline[Order]
orders.map(lambda order: order.color)  # E: "Order" has no attribute "color"

orders.to(symbol).to(large)  # E: has incompatible type "Computation[Order, Order | None]"
orders.to(symbol).to(add)  # E: has incompatible type "StateComputation[Order, Total, int | None]"
orders.merge(orders.to(symbol)).to(large)  # E: has incompatible type
orders.to(symbol).key_by(by_symbol)  # E: has incompatible type "KeyExtractor[Order, str]"
orders.to(len)  # E: Argument 1 to "to" of "Pipeline" has
orders.key_by(lambda order: order.amount)
orders.key_by(lambda order: order.price)  # E: "Order" has no attribute "price"

# To the sinks.
sink = wallaroo.TCPSinkConfig("", 0, encode)
reveal_type(sink)  # R: TCPSinkConfig[int]
totals = orders.key_by(by_symbol).to(add)
wallaroo.build_application("app", totals.to_sink(sink))
totals.to_sinks([sink, wallaroo.FileSinkConfig("out", encode, framing="lines")])
reveal_type(sink.named("archive"))  # R: TCPSinkConfig[int]
orders.to_sink(sink)  # E: has incompatible type "TCPSinkConfig[int]"
orders.to_sinks([sink])  # E: List item 0 has incompatible type "TCPSinkConfig[int]"
page = wallaroo.SSESinkConfig("", 0, encode)
orders.to_sink(page)  # E: has incompatible type "SSESinkConfig[int]"
wallaroo.TCPSinkConfig("", 0, len)  # E: Argument 3 to "TCPSinkConfig" has incompatible type
wallaroo.TCPSinkConfig("", 0, str.encode)


@wallaroo.computation(name="either")
def either(order: Order) -> Order | str | None:
    return order


@wallaroo.computation(name="length")
def length(thing: Order | str) -> int:
    return len(thing)


several: wallaroo.Pipeline[Order | str] = orders.to(either)
reveal_type(several.to(length))  # R: Pipeline[int]
