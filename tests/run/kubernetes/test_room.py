"""While the gateway is away, no executor takes the room that its next pod needs."""

from __future__ import annotations

from collections.abc import Collection

from structlog.testing import capture_logs

from wallaroo.run.kubernetes.room import GatewayRoom


class Stub:
    """Executors on a node with room for two, or for three without the gateway."""

    wanted = 3

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.kept: list[Collection[str] | None] = []

    def running(self) -> list[str]:
        return self.names

    def keep(self, names: Collection[str] | None) -> None:
        self.kept.append(names)


def test_executors_that_wait_are_withdrawn_until_the_gateway_is_back() -> None:
    executors, there = Stub("1", "2"), True
    room = GatewayRoom(lambda: there, executors)
    room.look()
    assert not executors.kept
    there = False
    with capture_logs() as logs:
        room.look()
        executors.names.append("3")  # it got the gateway's room
        room.look()
    assert executors.kept == [{"1", "2"}, {"1", "2"}]
    assert [(log["wanted"], log["running"]) for log in logs] == [(3, 2)]
    there = True
    room.look()
    room.look()
    assert executors.kept[2:] == [None]


def test_nothing_is_said_when_all_executors_run() -> None:
    executors, there = Stub("1", "2", "3"), True
    room = GatewayRoom(lambda: there, executors)
    room.look()
    there = False
    with capture_logs() as logs:
        room.look()
    assert not logs
    assert executors.kept == [{"1", "2", "3"}], "one that is lost now is not replaced at once"


def test_it_looks_again_after_an_error() -> None:
    looks: list[int] = []

    def responds() -> bool:
        looks.append(1)
        if len(looks) == 1:
            raise ConnectionError
        return True

    room = GatewayRoom(responds, Stub())
    room.look()
    room.look()
    assert len(looks) == 2
