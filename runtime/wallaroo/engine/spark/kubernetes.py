"""Spark on Kubernetes: its settings in a driver's pod, and the process in an executor's pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from wallaroo.engine.spark.java import find_java, java_command
from wallaroo.system.pod import Pod, value_of

DRIVER_PORT, BLOCK_PORT = 7078, 7079
"""Ports of the driver's pod that executors connect to."""
_EXECUTOR_CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_LOGGING = Path(__file__).parent / "log4j2.properties"
_TOLD_BY_SPARK = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Arguments of the executor's class, and the environment variables that Spark gives them in."""


def settings(
    pod: Pod, image: str, prefix: str, template: Path | None, token_file: Path
) -> dict[str, str]:
    """Settings of a session whose driver runs in *pod*, and whose executors are pods.

    Args:
        pod: The driver's pod; executors go when it goes.
        image: Image of the executors.
        prefix: How the names of their pods begin; other than those of the last driver's, whose
            executors may not be gone yet.
        template: Pod that they are made from.
        token_file: File with a secret that driver and executors show each other, in both.
    """
    chosen = {
        "spark.kubernetes.namespace": pod.namespace,
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.driver.host": pod.ip,
        "spark.driver.bindAddress": pod.ip,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.executor.podNamePrefix": prefix,
        # what Spark would put into it, it tells executors by arguments as well
        "spark.kubernetes.executor.disableConfigMap": "true",
        # it makes neither, and should not need leave to look
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": str(token_file),
        # executors come and go for as long as the application runs: no number of them is too many
        "spark.executor.maxNumFailures": str(2**31 - 1),
        "spark.decommission.enabled": "true",
        "spark.kubernetes.decommission.script": "wallaroo-decommission",
        "spark.blockManager.port": str(BLOCK_PORT),
        # a batch starts with the executors that are there
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.kubernetes.allocation.batch.delay": "1s",
        # a pod that is removed by force tells nobody: it is missed when all are counted
        "spark.kubernetes.executor.apiPollingInterval": "5s",
        "spark.kubernetes.executor.missingPodDetectDelta": "10s",
        "spark.executor.heartbeatInterval": "5s",
        "spark.network.timeout": "60s",
    }
    if template is not None:
        chosen["spark.kubernetes.executor.podTemplateFile"] = str(template)
        chosen["spark.kubernetes.executor.podTemplateContainerName"] = "executor"
    return chosen


def executor_command(environment: Mapping[str, str]) -> list[str]:
    """The command of an executor, as Spark's Kubernetes backend describes it in *environment*.

    Raises:
        UsageError: Something is missing, or there is no usable Java.
    """
    memory = value_of("SPARK_EXECUTOR_MEMORY", environment)
    numbered = {
        int(name.removeprefix("SPARK_JAVA_OPT_")): value
        for name, value in environment.items()
        if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)
    }
    # the image's Java has no such modules; the secret's file is read where the master is known
    options = [numbered[n] for n in sorted(numbered) if "--add-modules" not in numbered[n]]
    options.insert(0, f"-Dlog4j2.configurationFile={_LOGGING}")  # what a user sets is behind it
    options.append("-Dspark.master=k8s://https://kubernetes.default.svc")
    command = java_command(find_java(), memory, options)
    command.append(_EXECUTOR_CLASS)
    for argument, variable in _TOLD_BY_SPARK.items():
        command += [argument, value_of(variable, environment)]
    return command
