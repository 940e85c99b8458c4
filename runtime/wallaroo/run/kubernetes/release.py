"""The status of a release on a cluster: its pods, its driver, its gateway and its problems."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.status import WAITING
from wallaroo.run.driver_status import HANDED_OVER
from wallaroo.run.kubernetes.failures import call_failures, why_failed
from wallaroo.run.kubernetes.worker_count import requested

_INSTANCE, _COMPONENT = "app.kubernetes.io/instance", "app.kubernetes.io/component"
_PART_OF = "app.kubernetes.io/part-of=wallaroo"
_CONTROLLERS = ("gateway", "driver")
"""Components that always have a pod, unless the release is stopped."""
_UPGRADE_CHECK = "upgrade-check"
"""Component of the pod that helm runs before an upgrade, and leaves behind if it fails."""
_ORDER = ("gateway", "driver", "executor", "receiver", "test", _UPGRADE_CHECK)
"""Components in the order in which they are shown."""
_HEALTH_PORT = "health"
"""Name of the port at which gateway and driver serve `/status`."""
_TIMEOUT_S = 10.0
"""Seconds that the API server may take to respond."""

MAX_LAG_S = 60.0
"""Seconds that a message may wait before this is a problem: thousands of times the usual latency.
The dashboard and the alert rules use the same limit."""

_REMEDIES: Mapping[str, str] = {
    "ErrImagePull": "check image.repository, image.tag and imagePullSecrets",
    "ImagePullBackOff": "check image.repository, image.tag and imagePullSecrets",
    "ErrImageNeverPull": "load the image into the nodes, or set image.pullPolicy=IfNotPresent",
    "InvalidImageName": "check image.repository and image.tag",
    "CreateContainerConfigError": "check the Secrets and ConfigMaps that the values name",
    "DeadlineExceeded": "correct what delayed it, or increase upgradeCheck.timeoutSeconds",
    "OOMKilled": "give it more memory: resources, or executor.memoryOverhead",
    "FailedMount": "check the volume's claim and storage class",
    "FailedAttachVolume": "check the volume's claim, and the node that holds the volume",
    "FailedCreate": "check quotas, ServiceAccounts and admission rules of the namespace",
}
"""What to do, by Kubernetes' name of the reason."""


@dataclass(frozen=True)
class PodStatus:
    """A pod of a release."""

    name: str
    component: str
    """`gateway`, `driver`, `executor`, `receiver` or `test`."""
    phase: str
    """The phase in Kubernetes, or `Terminating`."""
    ready: bool
    restarts: int
    age_s: float
    node: str | None
    problem: str | None = None
    """Why it does not run as it should, and what to do; None if it does."""


@dataclass(frozen=True)
class ReleaseStatus:
    """The current status of a release."""

    release: str
    namespace: str
    pods: Sequence[PodStatus]
    workers_wanted: int | None
    """Requested number of executors, from the release's ConfigMap."""
    partitions: int | None
    """Number of partitions."""
    driver: Mapping[str, Any] | None
    """The driver's status; None if it does not respond."""
    gateway: Mapping[str, Any] | None
    """The gateway's status; None if it does not respond."""
    problems: Sequence[str] = field(default_factory=list)
    """All problems, as sentences."""

    @property
    def workers_running(self) -> int:
        """Number of executors that are running and ready."""
        return sum(pod.component == "executor" and pod.ready for pod in self.pods)

    def to_json(self) -> dict[str, Any]:
        """The status as JSON."""
        driver, gateway = self.driver or {}, self.gateway or {}
        return {
            "release": self.release,
            "namespace": self.namespace,
            "application": driver.get("application"),
            "state": driver.get("state"),
            "workers": {
                "wanted": self.workers_wanted,
                "running": self.workers_running,
                "partitions": self.partitions,
            },
            "autoscaling": driver.get("autoscaling"),
            "pods": [asdict(pod) for pod in self.pods],
            "sources": gateway.get("sources", []),
            "sinks": gateway.get("sinks", []),
            "chunk": driver.get("chunk"),
            "publications_per_s": driver.get("publications_per_s"),
            "messages_per_s": driver.get("messages_per_s"),
            "lag_s": gateway.get("waited_s"),
            "backlog": gateway.get("backlog"),
            "undelivered": gateway.get("undelivered"),
            "delivered": gateway.get("delivered"),
            "set_aside": gateway.get("set_aside"),
            "late": gateway.get("late"),
            "last_error": driver.get("last_error"),
            "problems": list(self.problems),
        }


def load_api(context: str | None, namespace: str | None) -> tuple[Any, str]:
    """The Kubernetes API of a context of kubectl's configuration, and the namespace to use.

    In a pod, which has no such configuration, it is the API of the pod's own cluster.

    Raises:
        UsageError: There is no cluster or no such context.
    """
    try:
        from kubernetes import client, config
    except ImportError as error:
        msg = "this command requires the package kubernetes: install wallaroo[kubernetes]"
        raise UsageError(msg) from error
    file = os.environ.get("KUBECONFIG")  # the package reads it only once, at import
    try:
        api = client.CoreV1Api(config.new_client_from_config(file, context))
        contexts, active = config.list_kube_config_contexts(file)
        chosen = next((c for c in contexts if c["name"] == context), active)
        default = chosen["context"].get("namespace", "default")
    except config.ConfigException as error:
        try:
            config.load_incluster_config()
        except config.ConfigException:
            msg = f"no cluster is configured: {error}; set KUBECONFIG, or use --context"
            raise UsageError(msg) from error
        api, default = client.CoreV1Api(), "default"
    return api, namespace or default


def release_status(
    api: Any, namespace: str, release: str, max_lag_s: float = MAX_LAG_S
) -> ReleaseStatus:
    """The current status of *release*.

    Args:
        api: A `kubernetes.client.CoreV1Api`.
        namespace: Namespace of the release.
        release: Name of the release.
        max_lag_s: Seconds that a message may wait before this is a problem.

    Raises:
        RuntimeFailure: The cluster does not respond, or denies access.
        UsageError: There is no such release.
    """
    selection: dict[str, Any] = {
        "namespace": namespace,
        "label_selector": f"{_PART_OF},{_INSTANCE}={release}",
        "_request_timeout": _TIMEOUT_S,
    }
    try:
        pods = api.list_namespaced_pod(**selection).items
        maps = api.list_namespaced_config_map(**selection).items
        events = api.list_namespaced_event(namespace, _request_timeout=_TIMEOUT_S).items
    except call_failures() as error:
        which = f"{release} in the namespace {namespace}"
        msg = f"the release {which} cannot be read: {why_failed(error)}"
        raise RuntimeFailure(msg) from error
    if not pods and not maps:
        msg = f"there is no Wallaroo release {release} in the namespace {namespace}: see helm list"
        raise UsageError(msg)
    warnings = _warnings(events)
    statuses = [_pod(pod, warnings) for pod in pods]
    statuses.sort(key=lambda pod: (_rank(pod.component), len(pod.name), pod.name))
    data: dict[str, str] = next(
        (m.data or {} for m in maps if m.metadata.labels.get(_COMPONENT) == "workers"), {}
    )
    driver = _query(api, namespace, pods, "driver")
    gateway = _query(api, namespace, pods, "gateway")
    return ReleaseStatus(
        release,
        namespace,
        statuses,
        requested(data),
        _number(data.get("partitions")),
        driver,
        gateway,
        [
            *_problems(statuses, maps, warnings, driver, gateway),
            *_delays(driver or {}, gateway or {}, max_lag_s),
        ],
    )


def _rank(component: str) -> int:
    return _ORDER.index(component) if component in _ORDER else len(_ORDER)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _warnings(events: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """The reason and the text of the last warning about each object."""
    latest: dict[str, tuple[datetime.datetime, str, str]] = {}
    for event in events:
        at = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
        name = event.involved_object.name
        if event.type == "Warning" and (name not in latest or at >= latest[name][0]):
            latest[name] = (at, event.reason or "", event.message or "")
    return {name: (reason, text) for name, (_, reason, text) in latest.items()}


def _pod(pod: Any, warnings: Mapping[str, tuple[str, str]]) -> PodStatus:
    conditions = {c.type: c for c in pod.status.conditions or []}
    ready = _is_ready(pod)
    age = datetime.datetime.now(datetime.UTC) - pod.metadata.creation_timestamp
    leaving = pod.metadata.deletion_timestamp is not None
    return PodStatus(
        pod.metadata.name,
        pod.metadata.labels.get(_COMPONENT, "?"),
        "Terminating" if leaving else pod.status.phase,
        ready and not leaving,
        sum(c.restart_count for c in pod.status.container_statuses or []),
        round(age.total_seconds(), 1),
        pod.spec.node_name,
        None if leaving else _pod_problem(pod, conditions, ready, warnings),
    )


def _is_ready(pod: Any) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])


def _pod_problem(
    pod: Any,
    conditions: Mapping[str, Any],
    ready: bool,
    warnings: Mapping[str, tuple[str, str]],
) -> str | None:
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for status in statuses:
        last = status.last_state.terminated if status.last_state is not None else None
        waiting = status.state.waiting
        ended = status.state.terminated or (None if ready else last)
        if ended is not None and ended.exit_code:
            reason = (ended.message or "").strip() or ended.reason or "no reason given"
            return _with_remedy(
                f"{status.name} ended with exit code {ended.exit_code}: {reason}", ended.reason
            )
        if waiting is not None and waiting.reason not in {"ContainerCreating", "PodInitializing"}:
            text = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            return _with_remedy(text, waiting.reason)
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"cannot be scheduled: {scheduled.message}"
    if ready or pod.status.phase == "Succeeded":
        return None
    if pod.status.phase == "Failed":
        return _with_remedy(pod.status.message or "failed", pod.status.reason)
    reason, text = warnings.get(pod.metadata.name, ("", ""))
    return _with_remedy(text, reason) if text else None


def _with_remedy(text: str, reason: str | None) -> str:
    remedy = _REMEDIES.get(reason or "")
    return f"{text.rstrip('.')}; {remedy}" if remedy else text


def _query(
    api: Any, namespace: str, pods: Sequence[Any], component: str
) -> Mapping[str, Any] | None:
    """The status that the pod of *component* serves, through the API server.

    Of several drivers it is the one that runs, if there is one.
    """
    found: Mapping[str, Any] | None = None
    for pod in pods:
        if pod.metadata.labels.get(_COMPONENT) != component or pod.status.phase != "Running":
            continue
        ports = [p for c in pod.spec.containers for p in c.ports or [] if p.name == _HEALTH_PORT]
        if not ports:
            continue
        try:
            answer = api.connect_get_namespaced_pod_proxy_with_path(
                f"{pod.metadata.name}:{ports[0].container_port}",
                namespace,
                "status",
                _preload_content=False,  # the client would convert JSON to Python's notation
                _request_timeout=_TIMEOUT_S,
            )
            status: Mapping[str, Any] = json.loads(answer.data)
        except call_failures(ValueError):
            continue
        if status.get("state") not in {WAITING, HANDED_OVER}:
            return status
        found = status
    return found


def _problems(
    pods: Sequence[PodStatus],
    maps: Sequence[Any],
    warnings: Mapping[str, tuple[str, str]],
    driver: Mapping[str, Any] | None,
    gateway: Mapping[str, Any] | None,
) -> Iterator[str]:
    for pod in pods:
        if pod.problem is not None:
            after = "; the release runs as before the upgrade"
            yield f"{pod.name}: {pod.problem}{after if pod.component == _UPGRADE_CHECK else ''}"
    present = {pod.component for pod in pods}
    fullname = next(
        (
            m.metadata.name.removesuffix("-workers")
            for m in maps
            if m.metadata.labels.get(_COMPONENT) == "workers"
        ),
        None,
    )
    for component in _CONTROLLERS:
        if component not in present:
            name = re.compile(rf"{re.escape(str(fullname))}-{component}(-[0-9a-z]+)?")
            about = (warnings[found] for found in warnings if name.fullmatch(found))
            reason, text = next(about, ("", ""))  # of a StatefulSet or a ReplicaSet
            why = f": {_with_remedy(text, reason)}" if text else " (is the release stopped?)"
            yield f"there is no pod of the {component}{why}"
    if gateway is not None:
        for kind in ("source", "sink"):
            for end in gateway.get(f"{kind}s", []):
                if end.get("problem"):
                    yield f"{kind} {end['name']} at {end['where']}: {end['problem']}"
        if gateway.get("set_aside"):
            yield f"{gateway['set_aside']} messages could not be processed: see the driver's log"
    if driver is not None and driver.get("problem"):
        yield f"{driver['problem']} (the driver is {driver['state']}): see its log"
    if driver is not None and (scaling := driver.get("autoscaling")) and scaling["problem"]:
        yield f"the number of workers does not follow the load: {scaling['problem']}"
    if driver is not None and driver.get("last_error"):
        yield f"last error: {driver['last_error']}"


def _delays(
    driver: Mapping[str, Any], gateway: Mapping[str, Any], max_lag_s: float
) -> Iterator[str]:
    """Problems with the speed of processing."""
    waited_s = gateway.get("waited_s") or 0.0
    if driver.get("state") == "paused":
        if waited_s > max_lag_s:
            yield (
                f"the application is paused, and the oldest message has waited for {waited_s:.0f} "
                f"s: resume it on its dashboard or with wallaroo resume"
            )
        return
    if waited_s > max_lag_s:
        yield (
            f"the application cannot keep up with its senders: the oldest message has waited for "
            f"{waited_s:.0f} s, more than {max_lag_s:g} s (--max-lag); more workers may help"
        )
