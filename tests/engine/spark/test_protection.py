"""With which settings Spark's ports admit nobody without the secret, and encrypt."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.spark import kubernetes
from wallaroo.engine.spark.protection import protected
from wallaroo.system.pod import Pod

POD = Pod("driver-0", "streams", "10.0.0.1")
SECRET, SECRET_FILE = "spark.authenticate.secret", "spark.authenticate.secret.file"


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[2,8]", "local-cluster[2,1,1024]", "k8s://https://it"]
)
def test_what_a_run_starts_authenticates_and_encrypts_without_an_older_protocol(
    master: str,
) -> None:
    found = protected(master)
    assert found["spark.authenticate"] == "true"
    assert found["spark.network.crypto.enabled"] == "true"
    assert found["spark.network.crypto.authEngineVersion"] == "2"
    assert found["spark.network.crypto.saslFallback"] == "false"


def test_processes_of_a_local_cluster_have_a_secret_of_their_own_in_each_run() -> None:
    one, other = (protected("local-cluster[2,1,1024]")[SECRET] for _ in range(2))
    assert one != other
    assert min(len(one), len(other)) >= 32


def test_a_cluster_that_is_there_before_the_run_keeps_its_own_settings() -> None:
    assert protected("spark://elsewhere:7077") == {}


def test_on_kubernetes_the_secret_is_in_a_file_and_in_no_setting() -> None:
    file = Path("/etc/wallaroo/spark/secret")
    found = kubernetes.settings(POD, "image", "prefix", None, file)
    assert found[SECRET_FILE] == str(file)
    assert SECRET not in found | protected("k8s://https://it")


def test_spark_listens_at_the_address_of_the_pod_alone() -> None:
    found = kubernetes.settings(POD, "image", "prefix", None, None)
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == POD.ip


def test_an_executor_has_the_master_for_which_it_reads_the_file_of_the_secret() -> None:
    told = dict.fromkeys(kubernetes._EXECUTOR_ARGUMENTS.values(), "1")
    command = kubernetes.executor_command(told | {"SPARK_EXECUTOR_MEMORY": "256m"})
    assert any(option.startswith("-Dspark.master=k8s://") for option in command)
