"""Joins take the messages of two pipelines, and give what their function returns."""

from typing import NamedTuple

import wallaroo
from wallaroo import minutes, seconds


class Order(NamedTuple):
    id: int


class GiftOrder(Order):
    pass


class Customer(NamedTuple):
    name: str


@wallaroo.decoder(header_length=4, length_fmt=">I")
def order(payload: bytes) -> Order:
    return Order(int(payload))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def gift(payload: bytes) -> GiftOrder:
    return GiftOrder(int(payload))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def customer(payload: bytes) -> Customer:
    return Customer(payload.decode())


def order_time(order: Order) -> int:
    return order.id


def customer_time(customer: Customer) -> int:
    return len(customer.name)


@wallaroo.table_join(name="name")
def name(order: Order, customer: Customer) -> str | None:
    return customer.name


@wallaroo.table_join(name="name if known", how="left", ttl=minutes(5))
def name_if_known(order: Order, customer: Customer | None) -> str:
    return "" if customer is None else customer.name


@wallaroo.asof_join(
    name="at the time",
    tolerance=minutes(1),
    left_time=order_time,
    right_time=customer_time,
    delay=seconds(0),
)
def at_the_time(order: Order, customer: Customer) -> tuple[Order, Customer]:
    return order, customer


@wallaroo.interval_join(name="near", before=seconds(1), after=minutes(1), how="left")
def near(order: Order, customer: Customer | None) -> int:
    return order.id


@wallaroo.interval_join(  # E: incompatible type "Callable[[Order, Customer], int]"
    name="unsafe", before=seconds(1), after=minutes(1), how="left"
)
def unsafe(order: Order, customer: Customer) -> int:
    return len(customer.name)


orders = wallaroo.source("Orders", wallaroo.TCPSourceConfig("", 0, order))
gifts = wallaroo.source("Gifts", wallaroo.TCPSourceConfig("", 0, gift))
customers = wallaroo.source("Customers", wallaroo.TCPSourceConfig("", 0, customer))
reveal_type(orders.join(customers, name))  # R: WindowedPipeline[str, Order | Customer]
reveal_type(orders.join(customers, name_if_known))  # R: WindowedPipeline[str, Order | Customer]
reveal_type(gifts.join(customers, name))  # R: WindowedPipeline[str, GiftOrder | Customer]
reveal_type(orders.join(customers, at_the_time).late())  # R: Pipeline[Order | Customer]
reveal_type(orders.join(customers, near))  # R: WindowedPipeline[int, Order | Customer]
reveal_type(name(Order(1), Customer("a")))  # R: str | None
customers.join(  # E: Cannot infer value of type parameter "Other"
    orders,
    name,  # E: incompatible type "TableJoin[Order, Customer, str | None]"
)
orders.to(name)  # E: Argument 1 to "to" of "Pipeline" has
orders.join(customers, print)  # E: Argument 2 to "join" of "Pipeline" has incompatible type
wallaroo.table_join(name="n", how="right")  # E: No overload variant of "table_join" matches
