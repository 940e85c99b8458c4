"""Async and batched steps keep the types from step to step."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import wallaroo


class Client:
    async def get(self, symbol: str) -> float | None:
        return 1.0 if symbol else None


@wallaroo.once_per_worker
async def client() -> Client:
    return Client()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation_async(name="price", concurrency=10, timeout=timedelta(seconds=2))
async def price(symbol: str) -> float | None:
    return await (await client()).get(symbol)


@wallaroo.computation_async(name="plain")  # E: has incompatible type
def plain(symbol: str) -> float:
    return 1.0


@wallaroo.computation_batch(name="score", max=32, wait=wallaroo.milliseconds(5))
def score(prices: list[float]) -> list[int | None]:
    return [round(price) for price in prices]


@wallaroo.computation_batch(name="shown", retry=wallaroo.retries(2))
def shown(things: Sequence[object]) -> Iterator[str]:
    return map(repr, things)


@wallaroo.computation_batch(name="no list")  # E: has incompatible type
def no_list(price: float) -> list[int]:
    return [1]


@wallaroo.computation_batch(name="a number")  # E: Value of type variable "ResultList"
def a_number(prices: list[float]) -> int:
    return len(prices)


@wallaroo.encoder
def encode(score: int) -> str:
    return str(score)


reveal_type(client)  # R: def () -> Coroutine[Any, Any, Client]
reveal_type(price("A"))  # R: Coroutine[Any, Any, float | None]
reveal_type(score([1.0])[0])  # R: int | None
prices = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode)).to(price)
reveal_type(prices)  # R: Pipeline[float]
reveal_type(prices.to(score))  # R: Pipeline[int]
reveal_type(prices.to(score).to(shown))  # R: Pipeline[str]
prices.to(score).to_sink(wallaroo.TCPSinkConfig("", 0, encode))
prices.to(price)  # E: has incompatible type "AsyncComputation[str, float | None]"
prices.to(shown).to(score)  # E: incompatible type "BatchComputation[float, list[int | None]]"
wallaroo.computation_async(name="no text", timeout="2 s")  # E: has incompatible type "str"
