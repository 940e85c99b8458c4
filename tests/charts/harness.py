"""Charts rendered by whichever helm there is, and what must hold of the objects."""

from __future__ import annotations

import json
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from kubernetes_validate import utils as schemas

HELM = Path(__file__).parents[2] / "helm"
CHARTS = ("market-spread", "word-count")
Object = dict[str, Any]
"""A Kubernetes object."""

# without a cache, it reads a megabyte of schemas for each object
for read in (schemas.schema_contents, schemas.all_versions):
    setattr(schemas, read.__name__, cache(read))


class RefusedError(Exception):
    """Helm did not render a chart; the message is what it said."""


class Helm(ABC):
    """One helm."""

    name: str

    @abstractmethod
    def render(
        self,
        chart: Path,
        values: Mapping[str, Any],
        release: str = "",
        kube_version: str = "",
        api_versions: tuple[str, ...] = (),
    ) -> str:
        """What *chart* makes of *values*, as documents in YAML.

        Raises:
            RefusedError: The values are refused.
        """

    @abstractmethod
    def lint(self, chart: Path) -> list[str]:
        """What there is to say of *chart*."""

    @abstractmethod
    def package(self, chart: Path, destination: Path) -> Path:
        """The archive of *chart*."""

    def objects(
        self, chart: str | Path, values: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Object]:
        """The objects that *chart* (a name in helm/, or a path) makes of *values*."""
        path = HELM / chart
        options.setdefault("release", path.name)
        return json.loads(self._objects(path, json.dumps(values or {}), **options))  # type: ignore[no-any-return]

    @cache  # noqa: B019  (there are as many as there are helms)
    def _objects(self, chart: Path, values: str, **options: Any) -> str:
        rendered = self.render(chart, json.loads(values), **options)
        return json.dumps([o for o in yaml.load_all(rendered, yaml.CSafeLoader) if o])


class SdkHelm(Helm):
    """Helm 4 as a library."""

    def __init__(self) -> None:
        self.name = "sdk"

    def render(
        self,
        chart: Path,
        values: Mapping[str, Any],
        release: str = "",
        kube_version: str = "",
        api_versions: tuple[str, ...] = (),
    ) -> str:
        import helm_python

        with _for_cluster(chart, kube_version, api_versions) as there:
            try:
                with helm_python.Chart.load(there) as loaded:
                    files = loaded.render(dict(values), name=release, namespace="default")
            except helm_python.HelmError as error:
                raise RefusedError(str(error)) from error
        return "".join(text for name, text in files.items() if name.endswith(".yaml"))

    def lint(self, chart: Path) -> list[str]:
        import helm_python

        return [str(message["error"]) for message in helm_python.lint(chart)["messages"]]

    def package(self, chart: Path, destination: Path) -> Path:
        import helm_python

        return Path(helm_python.chart.package(chart, destination=destination))


class CommandHelm(Helm):
    """A helm command.

    Args:
        command: Its path.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self.name = Path(command).name

    def render(
        self,
        chart: Path,
        values: Mapping[str, Any],
        release: str = "",
        kube_version: str = "",
        api_versions: tuple[str, ...] = (),
    ) -> str:
        options = [f"--kube-version={kube_version}"] if kube_version else []
        options += [f"--api-versions={version}" for version in api_versions]
        return self._run("template", release, str(chart), "--values=-", *options, values=values)

    def lint(self, chart: Path) -> list[str]:
        told = self._run("lint", "--strict", str(chart))
        return [line for line in told.splitlines() if line.startswith("[")]

    def package(self, chart: Path, destination: Path) -> Path:
        self._run("package", str(chart), "--destination", str(destination))
        return next(destination.glob("*.tgz"))

    def _run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        done = subprocess.run(
            [self._command, *arguments],
            input=json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise RefusedError(done.stderr)
        return done.stdout


@contextmanager
def _for_cluster(chart: Path, kube_version: str, api_versions: tuple[str, ...]) -> Iterator[Path]:
    """*chart*, whose templates take the cluster for one of *kube_version* with *api_versions*.

    The library always renders for its own version of Kubernetes, with the built-in APIs.
    """
    if not (kube_version or api_versions):
        yield chart
        return
    overrides = ""
    if kube_version:
        overrides += f'{{{{ define "wallaroo.kubeVersion" }}}}v{kube_version}{{{{ end }}}}'
    if api_versions:
        known = " ".join(json.dumps(version) for version in api_versions)
        has = f"or (has .api (list {known})) (.root.Capabilities.APIVersions.Has .api)"
        overrides += (
            f'{{{{ define "wallaroo.hasApi" }}}}{{{{ if {has} }}}}true{{{{ end }}}}{{{{ end }}}}'
        )
    with TemporaryDirectory() as directory:
        copy = Path(shutil.copytree(chart, Path(directory) / chart.name))
        (copy / "templates" / "_overrides.tpl").write_text(overrides)
        yield copy


def helms() -> list[Helm]:
    """Every helm there is: the library, where it was installed, and commands on the PATH."""
    found: list[Helm] = [
        CommandHelm(c) for n in ("helm", "helm3", "helm4") if (c := shutil.which(n))
    ]
    try:
        import helm_python  # noqa: F401
    except ImportError:  # it is made for some platforms only
        return found
    return [SdkHelm(), *found]


def one(objects: list[Object], kind: str, name_end: str = "") -> Object:
    """The one object of *kind* whose name ends with *name_end*."""
    (found,) = (
        o for o in objects if o["kind"] == kind and o["metadata"]["name"].endswith(name_end)
    )
    return found


def pod_spec(objects: list[Object], component: str) -> Object:
    """The spec of the pods of the gateway or the driver."""
    (found,) = (
        o["spec"]["template"]["spec"]
        for o in objects
        if o["kind"] == "Deployment" and o["metadata"]["name"].endswith(f"-{component}")
    )
    spec: Object = found
    return spec


def executor_pod(objects: list[Object]) -> Object:
    """The pod that Spark makes of the executors' template."""
    template = one(objects, "ConfigMap", "-executor")["data"]["pod.yaml"]
    pod: Object = yaml.load(template, yaml.CSafeLoader)
    pod["metadata"]["name"] = "executor"
    pod["spec"]["containers"][0]["image"] = "set-by-spark"
    return pod


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Every pod that comes of *objects*: where it comes from, and its spec."""
    for found in objects:
        if found["kind"] == "Pod":
            yield found["metadata"]["name"], found["spec"]
        elif "template" in found.get("spec", {}):
            yield found["metadata"]["name"], found["spec"]["template"]["spec"]
    yield "executor", executor_pod(objects)["spec"]


def invalid(found: Object, version: str) -> str | None:
    """What is wrong with *found* for Kubernetes *version*; None if it is valid."""
    return _invalid(json.dumps(found), version)


@cache  # most objects are the same whatever the values
def _invalid(text: str, version: str) -> str | None:
    found = json.loads(text)
    try:
        if version == "1.20":
            _schema_1_20(found["apiVersion"], found["kind"]).validate(found)
        else:
            kubernetes_validate.validate(found, version, strict=True)
    except jsonschema.ValidationError as error:
        return f"{found['kind']} {found['metadata']['name']}: {error.json_path}: {error.message}"
    return None


@cache
def _schema_1_20(api_version: str, kind: str) -> jsonschema.Draft7Validator:
    path = Path(__file__).with_name("schemas") / "kubernetes-1.20.json"
    schema = json.loads(path.read_text())
    reference = schema["kinds"][f"{api_version} {kind}"]
    return jsonschema.Draft7Validator({"definitions": schema["definitions"], "$ref": reference})


def unrestricted(spec: Object) -> list[str]:
    """Where the pod *spec* is not what the Pod Security Standard `restricted` asks for."""
    wrong = [
        f"{field} is set" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)
    ]
    allowed = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "projected", "csi"}
    for volume in spec["volumes"]:
        wrong += [f"volume {v}" for v in volume.keys() - {"name"} - allowed]
    pod = spec.get("securityContext", {})
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        own = container.get("securityContext", {})
        both = {**pod, **own}
        rules = {
            "runs as root": both.get("runAsNonRoot") is True and both.get("runAsUser") != 0,
            "may gain privileges": own.get("allowPrivilegeEscalation") is False,
            "is privileged": not own.get("privileged"),
            "has capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "has no seccomp profile": both.get("seccompProfile") == {"type": "RuntimeDefault"},
            "writes to its root": own.get("readOnlyRootFilesystem") is True,
        }
        wrong += [f"{container['name']} {fault}" for fault, kept in rules.items() if not kept]
    return wrong
