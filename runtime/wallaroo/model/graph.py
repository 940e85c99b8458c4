"""An application as a graph: what there is to draw, whoever draws it.

Steps that merged pipelines go through together are one node, and so is a state partition that
several steps use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from wallaroo.api.place import Place
from wallaroo.model.application import (
    Application,
    Branch,
    CustomSink,
    CustomSource,
    KeyBy,
    Pipeline,
    Sink,
    Source,
    Stateful,
    StatePartition,
    Step,
    WindowCompute,
)
from wallaroo.model.branch import only_key

NodeKind = Literal["source", "step", "stateful step", "state", "sink"]


@dataclass(frozen=True)
class Node:
    """A source, a step, a state partition or a sink."""

    id: str
    """Unique in its graph: a letter and a number."""
    kind: NodeKind
    name: str
    detail: str
    """What else there is to say, in a few words; empty where there is nothing."""
    place: Place
    """The line of user code that it is about."""


@dataclass(frozen=True)
class Edge:
    """A way of messages between nodes, or a use of state."""

    start: str
    """Id of the node that it leaves."""
    end: str
    """Id of the node that it reaches."""
    kind: Literal["messages", "state"]
    label: str
    """Name of the function that finds the key on this way; empty where there is none."""


@dataclass(frozen=True)
class Group:
    """One pipeline, or several that merge, with the nodes that belong to them alone."""

    pipelines: tuple[str, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Graph:
    """What an application is made of, in the order of its code."""

    name: str
    groups: tuple[Group, ...]
    states: tuple[Node, ...]
    """State partitions, which any group may use."""
    edges: tuple[Edge, ...]


def graph_of(application: Application) -> Graph:
    """The graph of *application*.

    Example:
        >>> import wallaroo
        >>> from wallaroo.model.resolve import resolve
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
    return drawing.graph(application.name)


class _Drawing:
    """Collects nodes and edges, pipeline by pipeline."""

    def __init__(self) -> None:
        self._nodes: dict[object, Node] = {}
        """Nodes by what they stand for: a source, a way from a step on, a sink."""
        self._states: list[Node] = []
        self._edges: dict[Edge, None] = {}
        self._uses: dict[str, Stateful] = {}
        """Steps over state, by the ids of their nodes."""
        self._groups: list[tuple[list[str], list[Node]]] = []

    def add(self, pipeline: Pipeline) -> None:
        """Draw *pipeline*; what it has in common with others already there is drawn once."""
        before = set(self._nodes.values())
        source = pipeline.source
        nodes = [
            self._node(source, "source", source.name, _of_source(source), _told(source, pipeline))
        ]
        nodes += self._follow(pipeline, pipeline.trunk, nodes[0], "")
        self._group(pipeline.name, nodes, before)

    def _follow(self, pipeline: Pipeline, branch: Branch, last: Node, label: str) -> list[Node]:
        """Draw what comes behind *last*; *label* is for the first edge."""
        end = pipeline.sinks or (pipeline.name,)  # no sinks are nothing in common
        nodes: list[Node] = []
        for number, step in enumerate(branch.steps):
            if isinstance(step, KeyBy):
                label = _named(step.key)
                continue
            rest = Branch(branch.steps[number:], branch.forks)
            kind: NodeKind = "stateful step" if isinstance(step, Stateful) else "step"
            detail = str(step.windows) if isinstance(step, WindowCompute) else ""
            node = self._node(
                (_identity_of(rest), end), kind, step.name, detail, _told(step, pipeline)
            )
            self._edge(last, node, label or _key_of(step))
            if isinstance(step, Stateful):
                self._uses[node.id] = step
            nodes.append(node)
            last, label = node, ""
        for fork in branch.forks:
            nodes += self._follow(pipeline, fork, last, label)
        for sink in () if branch.forks else pipeline.sinks:
            nodes.append(self._node(sink, "sink", sink.name, _of_sink(sink), _told(sink, pipeline)))
            self._edge(last, nodes[-1], label)
        return nodes

    def add_state(self, partition: StatePartition) -> None:
        """Draw *partition*, and who uses it."""
        users = [
            (node, step) for node, step in self._uses.items() if step.partition == partition.name
        ]
        if all(step.key is only_key for _, step in users):
            keys = "one entity"
        else:
            keys = "any key" if partition.keys is None else f"{len(partition.keys)} keys"
        entities = "open windows" if partition.windows else _named(partition.new_entity)
        detail = f"{entities} · {keys}"
        state = self._node(partition.name, "state", partition.name, detail, partition.place)
        self._states.append(state)
        for user, _ in users:
            self._edges[Edge(user, state.id, "state", "")] = None

    def graph(self, name: str) -> Graph:
        """What was drawn."""
        groups = [Group(tuple(names), tuple(nodes)) for names, nodes in self._groups]
        return Graph(name, tuple(groups), tuple(self._states), tuple(self._edges))

    def _node(
        self, stands_for: object, kind: NodeKind, name: str, detail: str, place: Place
    ) -> Node:
        if stands_for not in self._nodes:
            number = len(self._nodes) + 1
            self._nodes[stands_for] = Node(f"n{number}", kind, name, detail, place)
        return self._nodes[stands_for]

    def _edge(self, start: Node, end: Node, label: str) -> None:
        self._edges[Edge(start.id, end.id, "messages", label)] = None

    def _group(self, name: str, nodes: list[Node], before: set[Node]) -> None:
        """Put *nodes* into the group that some of them are in, or into a new one."""
        new = [node for node in nodes if node not in before]
        for names, members in self._groups:
            if any(node in members for node in nodes):
                names.append(name)
                members.extend(new)
                return
        self._groups.append(([name], new))


def _identity_of(branch: Branch) -> tuple[object, ...]:
    forks = tuple(_identity_of(fork) for fork in branch.forks)
    return (tuple(map(_identity, branch.steps)), forks)


def _identity(step: Step) -> tuple[object, ...]:
    return (type(step), step.name, step.place, getattr(step, "partition", None))


def _told(part: Source | Step | Sink, pipeline: Pipeline) -> Place:
    """The place of *part*; that of its pipeline where it is a builtin, which has none."""
    return part.place if part.place.line else pipeline.place


def _key_of(step: Step) -> str:
    if not isinstance(step, Stateful) or step.key is None or step.key is only_key:
        return ""
    return _named(step.key)


def _of_source(source: Source) -> str:
    if isinstance(source, CustomSource):
        return source.where
    return f"TCP source · {_named(source.decode)}"


def _of_sink(sink: Sink) -> str:
    if isinstance(sink, CustomSink):
        return sink.where
    return f"TCP sink · {_named(sink.encode)}"


def _named(function: Callable[..., Any]) -> str:
    """The name that the author gave *function*, or the class whose method it is."""
    owner = getattr(function, "__self__", None)
    if inspect.isclass(owner):
        return owner.__name__
    if inspect.ismethod(function):
        return type(owner).__name__
    name = getattr(function, "__name__", None) or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)
