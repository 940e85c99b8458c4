"""The paths of which pipelines consist, and the declarations that become of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.places import Place
from wallaroo.api.stages import RemainingPath, SourcePath, Stage, merged, state_names


class PipelinePaths:
    """The paths from the sources of a pipeline to its end; never changed.

    Attributes:
        branches: One for each source, and more after a `merge` of branches.
        sinks: The sinks at their end.
        ended: Whether there has been a call that ends the pipeline.
        after_end: The calls after that, which are mistakes.
    """

    def __init__(
        self,
        branches: Sequence[SourcePath],
        sinks: Sequence[Any] = (),
        *,
        ended: bool = False,
        after_end: Sequence[Place] = (),
    ) -> None:
        self.branches, self.sinks = tuple(branches), tuple(sinks)
        self.ended, self.after_end = ended, tuple(after_end)

    def with_stage(self, stage: Stage) -> PipelinePaths:
        """The same paths with a *stage* more."""
        after_end = self._calls_after_end(stage.place, ended=self.ended)
        branches = [SourcePath(branch.origin, (*branch.stages, stage)) for branch in self.branches]
        return PipelinePaths(branches, self.sinks, ended=self.ended, after_end=after_end)

    def with_sinks(self, sinks: Sequence[Any], place: Place) -> PipelinePaths:
        """The same paths, which end at *sinks* by the call at *place*."""
        after_end = self._calls_after_end(place, ended=self.ended)
        return PipelinePaths(self.branches, sinks, ended=True, after_end=after_end)

    def merged(self, other: PipelinePaths, place: Place) -> PipelinePaths:
        """These paths and those of *other*, by the call at *place*."""
        ended = self.ended or other.ended  # which is a mistake, and the only one
        after_end = (*self._calls_after_end(place, ended=ended), *other.after_end)
        branches, sinks = self.branches + other.branches, self.sinks + other.sinks
        return PipelinePaths(branches, sinks, ended=ended, after_end=after_end)

    def _calls_after_end(self, place: Place, *, ended: bool) -> tuple[Place, ...]:
        """The calls made after the end, including the one at *place* if *ended*."""
        return (*self.after_end, place) if ended else self.after_end


def declared_pipelines(parts: Sequence[PipelinePaths]) -> list[DeclaredPipeline]:
    """Return one declared pipeline per source of *parts*."""
    every = [(part, branch) for part in parts for branch in part.branches]
    names = state_names([branch for _, branch in every])
    declared: list[DeclaredPipeline] = []
    for origin in dict.fromkeys(branch.origin for _, branch in every):
        found = [(part, branch) for part, branch in every if branch.origin is origin]
        of_origin = list(dict.fromkeys(part for part, _ in found))
        sinks, own = _shared_sinks(of_origin)
        paths = [
            RemainingPath(branch.stages, None if len(of_origin) == 1 else own[part])
            for part, branch in found
        ]
        trunk = merged(paths, names)
        declared.append(
            DeclaredPipeline(
                origin.name,
                origin.source,
                origin.place,
                trunk.steps,
                trunk.forks,
                sinks,
                ended=all(part.ended for part in of_origin),
                after_end=[place for part in of_origin for place in part.after_end],
                last_sinks=trunk.sinks,
            )
        )
    return declared


def _shared_sinks(
    parts: Sequence[PipelinePaths],
) -> tuple[list[Any], dict[PipelinePaths, list[int]]]:
    """Return the sinks of all *parts*, which may share some, and of each part the indices."""
    sinks: list[Any] = []
    own: dict[PipelinePaths, list[int]] = {}
    for part in parts:
        before = len(sinks)
        own[part] = []
        for sink in part.sinks:
            shared = [number for number in range(before) if sinks[number] is sink]
            own[part].append(shared[0] if shared else len(sinks))
            sinks += [] if shared else [sink]
    return sinks, own
