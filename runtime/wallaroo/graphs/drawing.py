"""Converts a graph to Mermaid and to DOT, the language of Graphviz."""

from __future__ import annotations

import html
from collections.abc import Iterator

from wallaroo.graphs.graph import Edge, Graph, Group, Node, NodeKind

_FILLS: dict[NodeKind, tuple[str, str]] = {
    "source": ("#dbeafe", "#1f6feb"),
    "step": ("#ffffff", "#33475b"),
    "stateful step": ("#fdf3d8", "#a87f1c"),
    "state": ("#fdf3d8", "#a87f1c"),
    "sink": ("#dcfce7", "#15803d"),
}
"""Fill and line colours; state and stateful steps share theirs."""
_MERMAID_SHAPES: dict[NodeKind, tuple[str, str]] = {
    "source": ("([", "])"),
    "step": ("[", "]"),
    "stateful step": ("[", "]"),
    "state": ("[(", ")]"),
    "sink": ("([", "])"),
}
_DOT_SHAPES: dict[NodeKind, str] = {
    "source": "shape=box",
    "step": 'shape=box, style="filled,rounded"',
    "stateful step": 'shape=box, style="filled,rounded"',
    "state": 'shape=cylinder, margin="0.25,0.12"',
    "sink": "shape=box",
}
_DOT_HEAD = """\
  graph [rankdir=LR, bgcolor=white, pad=0.25, nodesep=0.45, ranksep=0.7, labelloc=t, labeljust=l,
         fontname=Helvetica, fontsize=15, fontcolor="#14212e"]
  node [fontname=Helvetica, fontsize=13, fontcolor="#14212e", style=filled, penwidth=1.4,
        margin="0.2,0.12"]
  edge [fontname=Helvetica, fontsize=11, fontcolor="#44525f", penwidth=1.6, arrowsize=0.8]
"""
_SPACED = '<table border="0" cellpadding="5"><tr><td>{}</td></tr></table>'
"""Keeps a label off its edge."""


def mermaid(graph: Graph) -> str:
    """Convert *graph* to Mermaid, which GitHub and others render in Markdown."""
    return "\n".join(_mermaid(graph)) + "\n"


def dot(graph: Graph) -> str:
    """Convert *graph* to DOT, the language of Graphviz.

    Nodes and edges have the ids of the graph's nodes, clusters the id of their first node.
    """
    return "\n".join(_dot(graph)) + "\n"


def title(group: Group) -> str:
    """Return the title of *group*.

    Example:
        >>> title(Group(("Orders",), ())), title(Group(("A", "B"), ()))
        ('pipeline Orders', 'pipelines A, B')
    """
    return ("pipelines " if len(group.pipelines) > 1 else "pipeline ") + ", ".join(group.pipelines)


def _mermaid(graph: Graph) -> Iterator[str]:
    yield "flowchart LR"
    for group in graph.groups:
        yield f'  subgraph {_cluster(group)}["{_entities(title(group))}"]'
        for node in group.nodes:
            yield f"    {_mermaid_node(node)}"
        yield "  end"
        yield f"  style {_cluster(group)} fill:#f4f7fa,stroke:#9db2c4,stroke-dasharray:5 4"
    for node in graph.apart:
        yield f"  {_mermaid_node(node)}"
    for edge in graph.edges:
        label = f'|"{_entities(edge.label)}"|' if edge.label else ""
        yield f"  {edge.start} {'<-.->' if edge.kind == 'state' else '-->'}{label} {edge.end}"
    for kind, (area, line) in _FILLS.items():
        yield f"  classDef {_class(kind)} fill:{area},stroke:{line},color:#14212e"


def _mermaid_node(node: Node) -> str:
    opening, closing = _MERMAID_SHAPES[node.kind]
    text = f"<b>{_entities(node.name)}</b>"
    if node.detail:
        text += f"<br>{_entities(node.detail)}"
    return f'{node.id}{opening}"{text}"{closing}:::{_class(node.kind)}'


def _entities(text: str) -> str:
    """Escape *text* for a Mermaid label: characters other than letters and digits become entities.

    Example:
        >>> _entities('count "a" & <b>')
        'count #34;a#34; #38; #60;b#62;'
    """
    plain = " .,:·_-"
    return "".join(c if c.isalnum() or c in plain else f"#{ord(c)};" for c in text)


def _class(kind: NodeKind) -> str:
    return kind.replace(" ", "-")


def _dot(graph: Graph) -> Iterator[str]:
    yield "digraph {"
    yield _DOT_HEAD + f"  label=<<b>{_html(graph.name)}</b>>"
    for group in graph.groups:
        yield f"  subgraph cluster_{_cluster(group)} {{"
        yield f'    label=<{_html(title(group))}>; fontsize=11; fontcolor="#44525f"'
        yield '    style="rounded,dashed"; color="#9db2c4"; bgcolor="#f4f7fa"; margin=14'
        for node in group.nodes:
            yield f"    {_dot_node(node)}"
        yield "  }"
    for node in graph.apart:
        yield f"  {_dot_node(node)}"
    for edge in graph.edges:
        yield f"  {_dot_edge(edge)}"
    yield "}"


def _dot_node(node: Node) -> str:
    area, line = _FILLS[node.kind]
    text = f"<b>{_html(node.name)}</b>"
    if node.detail:
        text += f'<br/><font point-size="11" color="#44525f">{_html(node.detail)}</font>'
    return (
        f'{node.id} [label=<{text}>, {_DOT_SHAPES[node.kind]}, fillcolor="{area}", color="{line}"]'
    )


def _dot_edge(edge: Edge) -> str:
    if edge.kind == "state":
        return f'{edge.start} -> {edge.end} [dir=both, style=dashed, color="#a87f1c"]'
    label = f", label=<{_SPACED.format(_html(edge.label))}>" if edge.label else ""
    return f'{edge.start}:e -> {edge.end} [color="#1f6feb", weight=50{label}]'


def _html(text: str) -> str:
    return html.escape(" ".join(text.split()))


def _cluster(group: Group) -> str:
    return f"{group.nodes[0].id}s"
