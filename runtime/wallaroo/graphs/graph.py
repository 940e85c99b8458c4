"""The graph of an application, independent of how it is drawn.

Steps that merged pipelines share are one node, and so is a state that several steps use.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wallaroo.api.places import Place
from wallaroo.dataflow.steps.gathering import Gathering
from wallaroo.dataflow.steps.retrying import Retrying
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    KeyBy,
    Pipeline,
    StateCompute,
    Stateful,
    StatePartition,
    Step,
    WindowCompute,
)
from wallaroo.model.endpoints import Sink, Source
from wallaroo.model.joins import Join
from wallaroo.model.windows.base import duration
from wallaroo.resolution.steps import only_key

NodeKind = Literal["source", "step", "stateful step", "state", "sink"]


_LATE = "late"
"""Label of an edge for messages that came too late for windows or a join."""


@dataclass(frozen=True)
class Node:
    """A source, a step, a state or a sink."""

    id: str
    """Unique in its graph: a letter and a number."""
    kind: NodeKind
    name: str
    detail: str
    """Additional information in a few words, or empty."""
    place: Place
    """The line of user code that defines it."""


@dataclass(frozen=True)
class Edge:
    """A flow of messages between nodes, or a use of state."""

    start: str
    """Id of the node that it leaves."""
    end: str
    """Id of the node that it reaches."""
    kind: Literal["messages", "state"]
    label: str
    """Name of the function that extracts the key on this edge, `late` for messages that came too
    late, or empty."""
    extraction: str
    """What metrics call the extraction of that key, or empty."""


@dataclass(frozen=True)
class Group:
    """One pipeline, or several that merge, with the nodes that belong only to them."""

    pipelines: tuple[str, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Graph:
    """The parts of an application, in the order of its code."""

    name: str
    groups: tuple[Group, ...]
    states: tuple[Node, ...]
    """States, which any group may use."""
    edges: tuple[Edge, ...]
    dead_letters: Node | None = None
    """The sink of dead letters, which may come from anywhere; None if there is none."""

    @property
    def apart(self) -> tuple[Node, ...]:
        """The nodes that belong to no group."""
        return self.states if self.dead_letters is None else (*self.states, self.dead_letters)


def graph_of(application: Application) -> Graph:
    """Return the graph of *application*.

    Example:
        >>> import wallaroo
        >>> from wallaroo.resolution.application import resolve
        >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
        >>> builder = wallaroo.ApplicationBuilder("Shout")
        >>> _ = builder.new_pipeline("Shouting", wallaroo.TCPSourceConfig("", 0, text))
        >>> _ = builder.to(wallaroo.computation(name="shout")(str.upper)).done()
        >>> graph = graph_of(resolve(builder.build()))
        >>> [(node.kind, node.name) for node in graph.groups[0].nodes]
        [('source', 'Shouting'), ('step', 'shout')]
        >>> [(edge.start, edge.end) for edge in graph.edges]
        [('n1', 'n2')]
    """
    drawing = _Drawing()
    for pipeline in application.pipelines:
        drawing.add(pipeline)
    for partition in application.partitions.values():
        drawing.add_state(partition)
    if application.dead_letters is not None:
        drawing.add_dead_letters(application.dead_letters.sink)
    return drawing.graph(application.name)


class _Key(NamedTuple):
    """What the edge to the next node says; see `Edge`."""

    label: str = ""
    extraction: str = ""

    def then(self, key: Callable[[Any], Any], extraction: str) -> _Key:
        """The same after the extraction of *key*."""
        name = "" if key is only_key else _named(key)
        label = " · ".join(filter(None, [_LATE, name])) if self.label == _LATE else name
        return _Key(label, extraction)


class _Drawing:
    """Collects nodes and edges, pipeline by pipeline."""

    def __init__(self) -> None:
        self._nodes: dict[object, Node] = {}
        """Nodes by what they represent: a source, the path from a step onwards, a sink."""
        self._states: list[Node] = []
        self._edges: dict[Edge, None] = {}
        self._uses: dict[str, Stateful] = {}
        """Steps over state, by the ids of their nodes."""
        self._groups: list[tuple[list[str], list[Node]]] = []
        self._dead_letters: Node | None = None

    def add(self, pipeline: Pipeline) -> None:
        """Add *pipeline*; parts that it shares with earlier pipelines are added once."""
        existing = set(self._nodes.values())
        source = pipeline.source
        nodes = [self._node(source, "source", source.name, _of_source(source), source, pipeline)]
        self._branch(pipeline.trunk, nodes[0], _Key(), pipeline, nodes)
        self._group(pipeline.name, list(dict.fromkeys(nodes)), existing)

    def _branch(
        self, branch: Branch, last: Node, key: _Key, pipeline: Pipeline, nodes: list[Node]
    ) -> None:
        """Add *branch* after the node *last*, where messages were just assigned *key*."""
        end = pipeline.sinks or (pipeline.name,)  # pipelines without sinks share no end
        for number, step in enumerate(branch.steps):
            if isinstance(step, KeyBy):
                key = key.then(step.key, step.name)
                continue
            path = (_identity(branch.after(number - 1)), end)
            node = self._step(path, step, pipeline)
            if isinstance(step, Stateful) and step.key is not None:
                key = key.then(step.key, f"key of {step.name}")
            self._edge(last, node, key)
            last, key = node, _Key()
            nodes.append(node)
            if isinstance(step, WindowCompute) and step.late is not None:
                self._branch(step.late, node, _Key(_LATE), pipeline, nodes)
        for fork in branch.forks:
            self._branch(fork, last, key, pipeline, nodes)
        for sink in pipeline.sinks_of(branch):
            nodes.append(self._node(sink, "sink", sink.name, _of_sink(sink), sink, pipeline))
            self._edge(last, nodes[-1], key._replace(label=_LATE if key.label == _LATE else ""))

    def _step(self, path: object, step: Step, pipeline: Pipeline) -> Node:
        if not isinstance(step, Stateful):
            return self._node(path, "step", step.name, _of_computation(step), step, pipeline)
        detail = str(step.windows) if isinstance(step, WindowCompute) else _of_timers(step)
        node = self._node(path, "stateful step", step.name, detail, step, pipeline)
        self._uses[node.id] = step
        return node

    def add_state(self, partition: StatePartition) -> None:
        """Add *partition* with edges to the steps that use it."""
        users = [
            (node, step) for node, step in self._uses.items() if step.partition == partition.name
        ]
        if partition.keys is not None:
            keys = f"{len(partition.keys)} keys"
        else:
            single = all(step.key is only_key for _, step in users)
            keys = "one entity" if single else "any key"
        if partition.windows is not None:
            kind = "join" if isinstance(partition.windows, Join) else "windows"
        else:
            kind = _named(partition.new_entity)
        state = self._node(
            partition.name,
            "state",
            partition.name,
            f"{kind} · {keys}{_of_expiry(partition)}",
            partition,
            None,
        )
        self._states.append(state)
        for user, _ in users:
            self._edges[Edge(user, state.id, "state", "", "")] = None

    def add_dead_letters(self, sink: Sink) -> None:
        """Add the sink of dead letters."""
        self._dead_letters = self._node(sink, "sink", sink.name, _short(sink.label), sink, None)

    def graph(self, name: str) -> Graph:
        """Return the collected graph."""
        groups = [Group(tuple(names), tuple(nodes)) for names, nodes in self._groups]
        states, edges = tuple(self._states), tuple(self._edges)
        return Graph(name, tuple(groups), states, edges, self._dead_letters)

    def _node(
        self,
        stands_for: object,
        kind: NodeKind,
        name: str,
        detail: str,
        part: Source | Step | Sink | StatePartition,
        pipeline: Pipeline | None,
    ) -> Node:
        if stands_for not in self._nodes:
            place = part.place
            if not place.line and pipeline is not None:
                place = pipeline.place  # builtins have no location
            self._nodes[stands_for] = Node(f"n{len(self._nodes) + 1}", kind, name, detail, place)
        return self._nodes[stands_for]

    def _edge(self, start: Node, end: Node, key: _Key) -> None:
        self._edges[Edge(start.id, end.id, "messages", *key)] = None

    def _group(self, name: str, nodes: list[Node], existing: set[Node]) -> None:
        """Add *nodes* to the group that contains one of them, or to a new group."""
        new = [node for node in nodes if node not in existing]
        for names, members in self._groups:
            if any(node in members for node in nodes):
                names.append(name)
                members.extend(new)
                return
        self._groups.append(([name], new))


def _identity(branch: Branch) -> tuple[object, ...]:
    """Return a value that is equal for identical branches of merged pipelines."""
    steps = [
        (
            type(step),
            step.name,
            step.place,
            getattr(step, "partition", None),
            None if (late := getattr(step, "late", None)) is None else _identity(late),
        )
        for step in branch.steps
    ]
    return (*steps, *map(_identity, branch.forks), branch.sinks)


def _of_computation(step: Step) -> str:
    function = step.function if isinstance(step, Compute) else None
    if isinstance(function, Gathering):
        return function.label
    return f"{function.policy.times} retries" if isinstance(function, Retrying) else ""


def _of_timers(step: StateCompute) -> str:
    return "" if step.on_timer is None else f"timers call {_named(inspect.unwrap(step.on_timer))}"


def _of_expiry(partition: StatePartition) -> str:
    timing = partition.timing
    return "" if timing is None or timing.ttl_ns is None else f" · ttl {duration(timing.ttl_ns)}"


def _of_source(source: Source) -> str:
    label = _short(source.label)
    return label if source.gives_messages else f"{label} · {_named(source.decode)}"


def _of_sink(sink: Sink) -> str:
    return f"{_short(sink.label)} · {_named(sink.encode)}"


def _short(where: str) -> str:
    """Shorten paths of files in *where* to their names.

    Example:
        >>> _short("file /srv/app/words.txt"), _short("Countdown")
        ('file words.txt', 'Countdown')
    """
    return re.sub(r"\S*/", "", where)


def _named(function: Callable[..., Any]) -> str:
    """Return the name of *function*, or of its class if it is a method."""
    owner = getattr(function, "__self__", None)
    if inspect.isclass(owner):
        return owner.__name__
    if inspect.ismethod(function):
        return type(owner).__name__
    name = getattr(function, "__name__", None) or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)
