"""Spark on Kubernetes: settings of the driver, and the command of an executor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from wallaroo.engine.spark.java import find_java, java_command
from wallaroo.system.pod import Pod, value_of

DRIVER_PORT, BLOCK_PORT = 7078, 7079
"""Ports of the driver's pod to which executors connect."""
_EXECUTOR_CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_LOGGING = Path(__file__).parent / "log4j2.properties"
_EXECUTOR_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Arguments of the executor's class, and the environment variables that contain their values."""
SLOTS_VARIABLE = "WALLAROO_EXECUTOR_SLOTS"
"""Environment variable with the number of tasks that an executor runs at a time, in place of its
cores: Spark 4.3 gives `spark.executor.cores` of the session to the executors that it starts with,
and one core to those that replace them, or are added."""


def settings(
    pod: Pod, image: str, prefix: str, template: Path | None, secret_file: Path | None
) -> dict[str, str]:
    """Return the settings of a session whose driver runs in *pod*, with executors in pods.

    Args:
        pod: The driver's pod; executors are deleted together with it.
        image: Image of the executors.
        prefix: Prefix of the names of their pods; must differ from that of the previous driver,
            whose executors may still exist.
        template: File with the pod template; None for Spark's default.
        secret_file: File with the secret of Spark's own connections, at the same path on driver and
            executors; None to let Spark create one, which the specification of the pods then shows.
    """
    spark_settings = {
        "spark.kubernetes.namespace": pod.namespace,
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.driver.host": pod.ip,
        "spark.driver.bindAddress": pod.ip,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.executor.podNamePrefix": prefix,
        # Spark also passes its content to executors in arguments
        "spark.kubernetes.executor.disableConfigMap": "true",
        # there are none, and no permission to list them should be necessary
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
        # the application runs indefinitely, so any number of executors may fail over time
        "spark.executor.maxNumFailures": str(2**31 - 1),
        "spark.decommission.enabled": "true",
        "spark.kubernetes.decommission.script": "wallaroo-decommission",
        "spark.blockManager.port": str(BLOCK_PORT),
        # the query starts with the available executors
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.kubernetes.allocation.batch.delay": "1s",
        # pods that wait for room are deleted as soon as fewer executors are requested
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        # the driver's Service has it; otherwise, Spark would wait for the driver's pod to be ready,
        # which is so when the query runs, and report after a second that it is not
        "spark.kubernetes.driver.service.publishNotReadyAddresses": "true",
        # a forced removal of a pod is not reported: polling detects it
        "spark.kubernetes.executor.apiPollingInterval": "5s",
        "spark.kubernetes.executor.missingPodDetectDelta": "10s",
        "spark.executor.heartbeatInterval": "5s",
        "spark.network.timeout": "60s",
    }
    if secret_file is not None:
        spark_settings["spark.authenticate.secret.file"] = str(secret_file)
    if template is not None:
        spark_settings["spark.kubernetes.executor.podTemplateFile"] = str(template)
        spark_settings["spark.kubernetes.executor.podTemplateContainerName"] = "executor"
    return spark_settings


def requested_cores(spark_settings: Mapping[str, str]) -> float:
    """Return the cores that a pod of an executor requests.

    Example:
        >>> requested_cores({"spark.kubernetes.executor.request.cores": "500m"})
        0.5
        >>> requested_cores({"spark.executor.cores": "2"}), requested_cores({})
        (2.0, 1.0)
    """
    cores = spark_settings.get("spark.executor.cores", "1")
    text = spark_settings.get("spark.kubernetes.executor.request.cores", cores)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def executor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command of an executor that Spark's Kubernetes backend describes in *environment*.

    Raises:
        UsageError: A variable is missing, or no suitable Java is installed.
    """
    memory = value_of("SPARK_EXECUTOR_MEMORY", environment)
    numbered = {
        int(name.removeprefix("SPARK_JAVA_OPT_")): value
        for name, value in environment.items()
        if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)
    }
    # the image's Java lacks these modules; the secret's file is read only if the master is set
    options = [numbered[n] for n in sorted(numbered) if "--add-modules" not in numbered[n]]
    options.insert(0, f"-Dlog4j2.configurationFile={_LOGGING}")  # first, so that user options win
    options.append("-Dspark.master=k8s://https://kubernetes.default.svc")
    command = java_command(find_java(), memory, options)
    command.append(_EXECUTOR_CLASS)
    for argument, variable in _EXECUTOR_ARGUMENTS.items():
        command += [argument, value_of(variable, environment)]
    if SLOTS_VARIABLE in environment:
        command[command.index("--cores") + 1] = environment[SLOTS_VARIABLE]
    return command
