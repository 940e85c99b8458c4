"""The nodes of an application's graph: whose metrics each of them shows."""

from __future__ import annotations

from typing import NamedTuple

from wallaroo.graphs.graph import Node, graph_of
from wallaroo.model.application import Application, Pipeline

StepName = tuple[str, str]
"""A pipeline and a step of it, as in the labels of metrics."""


class NodeSteps(NamedTuple):
    """The steps that a node stands for."""

    passed: list[StepName]
    """Those that messages pass."""
    extractions: list[StepName]
    """Those that extract keys on the edges to it."""


def nodes_of(application: Application) -> dict[str, NodeSteps]:
    """The steps of each node that messages pass, by its id."""
    graph, nodes = graph_of(application), {}
    for group in graph.groups:
        pipelines = [one for one in application.pipelines if one.name in group.pipelines]
        for node in group.nodes:
            keys = {edge.extraction for edge in graph.edges if edge.end == node.id} - {""}
            nodes[node.id] = NodeSteps(
                [(one.name, step) for one in pipelines for step in _passed(node, one)],
                [(one.name, step) for one in pipelines for step in keys],
            )
    return nodes


def _passed(node: Node, pipeline: Pipeline) -> list[str]:
    if node.kind == "source":
        return ["decoder"] if pipeline.source.name == node.name else []
    if node.kind == "sink":
        return [pipeline.encoder_of(sink) for sink in pipeline.sinks if sink.name == node.name]
    return [node.name]
