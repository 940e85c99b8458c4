from __future__ import annotations

import json
import shutil
import sys
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers import ROOT
from wallaroo.cli.image_files import SECRETS
from wallaroo.cli.main import main

ENGINE = (
    f"#!{sys.executable}"
    + """
import json, pathlib, shutil, signal, sys
here, name = pathlib.Path(__file__).parent, pathlib.Path(__file__).name
if sys.argv[1] in ("version", "info"):
    if (here / f"{name}-hangs").exists():
        signal.pause()
    if (here / f"{name}-away").exists():
        sys.exit("Cannot connect to the Docker daemon")
    sys.exit()
(here / "engine").write_text(name)
if "inspect" in sys.argv:
    if not (here / "base-digest").exists():
        sys.exit("no such image")
    print((here / "base-digest").read_text())
    sys.exit()
if sys.argv[1] == "images":
    print("769 MB")
else:
    (here / "asked.json").write_text(json.dumps(sys.argv[1:]))
    shutil.copytree(sys.argv[-1], here / "context", symlinks=True)
    sys.exit((here / "fails").exists())
"""
)
"""Takes down what it is asked, and keeps the context."""


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for builders of images, alone on the PATH with git."""
    directory = tmp_path / "bin"
    directory.mkdir()
    if git := shutil.which("git"):
        (directory / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(directory))
    return directory


def install(engines: Path, name: str) -> None:
    (engines / name).write_text(ENGINE)
    (engines / name).chmod(0o755)


def build(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["build", *arguments])
    return done.exit_code, done.output


def asked(engines: Path) -> list[str]:
    return [str(argument) for argument in json.loads((engines / "asked.json").read_text())]


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_it_builds_with_whichever_engine_there_is(engines: Path, engine: str) -> None:
    install(engines, engine)
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1")
    first, second, third = said.splitlines()
    assert (code, first) == (0, f"building with {engine}")
    assert second.endswith(
        "whose digest is not known here, may change; --base NAME@sha256:… pins it"
    )
    assert third == "votes:1 contains Word Count Application, 769 MB"
    command = asked(engines)
    assert command[0] == "build"
    assert {
        "--tag=votes:1",
        "--build-arg=APP=app",
        "--build-arg=NAME=Word Count Application",
    } <= set(command)
    assert ("--format=docker" in command) == (engine != "docker")
    (updates,) = (argument for argument in command if argument.startswith("--build-arg=UPDATES="))
    date.fromisoformat(updates.rpartition("=")[2])
    context = engines / "context"
    assert (context / "Dockerfile").read_text() == (ROOT / "Dockerfile").read_text()
    copied = {file.name for file in (context / "app").iterdir()}
    assert copied >= {"application.py", "demo.py"}
    assert not list(context.rglob("__pycache__"))


def test_an_application_elsewhere_builds_the_same_way(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    application = tmp_path / "votes"
    assert (
        CliRunner().invoke(main, ["new", "votes", "--directory", str(application)]).exit_code == 0
    )
    (application / "requirements.txt").write_text("pytz\n")
    code, said = build(str(application), "-t", "votes:1", "--base", "debian:13", "--option=--pull")
    assert code == 0, said
    assert {"--build-arg=BASE=debian:13", "--pull"} <= set(asked(engines))
    assert (engines / "context" / "app" / "requirements.txt").read_text() == "pytz\n"


def test_an_application_of_one_file_builds_too(engines: Path, tmp_path: Path) -> None:
    install(engines, "podman")
    shutil.copy(ROOT / "apps" / "word_count" / "application.py", tmp_path / "words.py")
    code, said = build(str(tmp_path / "words.py"), "-t", "words:1")
    assert code == 0, said
    assert (engines / "context" / "app" / "application.py").exists()


def test_what_is_wrong_is_said_before_anything_is_built(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    (tmp_path / "application.py").write_text("def application_setup(args):\n    return 1 / 0\n")
    code, said = build(str(tmp_path), "-t", "votes:1")
    assert code == 1
    assert "ZeroDivisionError" in said
    assert not (engines / "asked.json").exists()


def test_a_build_that_fails_is_told(engines: Path) -> None:
    install(engines, "docker")
    (engines / "fails").touch()
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1")
    assert code == 1
    assert said.endswith("Error: docker did not build votes:1: see its output above\n")


def test_an_engine_that_does_not_answer_is_passed_over(
    engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine in ("docker", "podman", "buildah"):
        install(engines, engine)
    (engines / "docker-away").touch()
    (engines / "podman-hangs").touch()
    monkeypatch.setattr("wallaroo.cli.build._CHECK_S", 2.0)
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1")
    assert code == 0, said
    assert said.startswith(
        "docker does not respond (Cannot connect to the Docker daemon); "
        "podman did not respond within 2 s; building with buildah\n"
    )
    assert (engines / "engine").read_text() == "buildah"


def test_engines_of_which_none_answers_are_told(engines: Path) -> None:
    install(engines, "docker")
    (engines / "docker-away").touch()
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1")
    assert code == 2
    assert (
        "no image can be built: docker does not respond (Cannot connect to the Docker daemon); "
        "start one of them"
    ) in said
    assert not (engines / "asked.json").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "none of docker, podman, buildah is on the PATH"),
        (["--engine", "podman"], "podman is not on the PATH"),
    ],
)
def test_no_engine_is_told(engines: Path, options: list[str], reason: str) -> None:
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1", *options)
    assert code == 2
    assert reason in said


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_the_digest_of_the_base_is_recorded(engines: Path, engine: str) -> None:
    install(engines, engine)
    digest = f"sha256:{'ab' * 32}"
    app = str(ROOT / "apps" / "word_count")
    code, said = build(app, "-t", "votes:1", "--base", f"debian@{digest}")
    assert code == 0, said
    assert {f"--build-arg=BASE=debian@{digest}", f"--build-arg=BASE_DIGEST={digest}"} <= set(
        asked(engines)
    )
    assert "pins it" not in said
    shutil.rmtree(engines / "context")
    (engines / "base-digest").write_text(f'["debian@{digest}"]' if engine != "buildah" else digest)
    code, said = build(app, "-t", "votes:1", "--base", "debian:13")
    assert f"the base debian:13, which is {digest} now, may change" in said
    assert {"--build-arg=BASE=debian:13", f"--build-arg=BASE_DIGEST={digest}"} <= set(
        asked(engines)
    )


def test_a_base_with_a_malformed_digest_is_refused(engines: Path) -> None:
    install(engines, "docker")
    base = "debian@sha256:abc"
    code, said = build(str(ROOT / "apps" / "word_count"), "-t", "votes:1", "--base", base)
    assert code == 2
    assert f"--base {base}: expected NAME@sha256: and 64 hexadecimal digits" in said
    assert not (engines / "asked.json").exists()


SECRETIVE = """
import wallaroo

def application_setup(args):
    source = wallaroo.source("In", wallaroo.HTTPSourceConfig("127.0.0.1", 0, bytes.decode))
    sink = wallaroo.WebhookSinkConfig(
        "https://hooks.example.org", wallaroo.encoder(str.encode), headers_file="hook.headers"
    )
    events = wallaroo.SSESinkConfig("127.0.0.1", 0, str, token_file="keys/viewers")
    return wallaroo.build_application("secretive", source.to_sinks([sink, events]))
"""


def secretive(directory: Path, *files: str) -> Path:
    """An application that names files as secret, with *files* beside it."""
    directory.mkdir()
    (directory / "application.py").write_text(SECRETIVE)
    for name in ("hook.headers", "keys/viewers", *files):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(name)
    return directory


def in_image(engines: Path) -> set[str]:
    app = engines / "context" / "app"
    return {str(file.relative_to(app)) for file in app.rglob("*") if not file.is_dir()}


def test_secrets_stay_out_of_an_image_and_are_named(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    app = secretive(tmp_path / "app", ".env", ".env.example", "keys/server.key", "ca.pem")
    (app / "client.pem").write_text("-----BEGIN RSA PRIVATE KEY-----\nx\n")
    code, said = build(str(app), "-t", "votes:1")
    assert code == 0, said
    assert in_image(engines) == {"application.py", ".env.example", "ca.pem"}
    assert (
        "left out of the image (secret; a line such as !NAME in .dockerignore keeps one): "
        ".env, client.pem, keys/server.key\n"
    ) in said
    assert (
        "left out of the image (named as secret by the application, or by a variable): "
        "hook.headers, keys/viewers\n"
    ) in said


def test_a_build_of_this_repository_leaves_out_the_same_secrets() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[-len(SECRETS) :] == list(SECRETS)


def test_files_of_settings_that_variables_name_stay_out(
    engines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(engines, "docker")
    app = secretive(tmp_path / "app", "kafka.properties", "more.properties", "registry.properties")
    files = [app / "kafka.properties", app / "more.properties"]
    monkeypatch.setenv("WALLAROO_KAFKA_SETTINGS", ":".join(map(str, files)))
    monkeypatch.setenv("WALLAROO_SCHEMA_REGISTRY_SETTINGS", str(app / "registry.properties"))
    assert build(str(app), "-t", "votes:1")[0] == 0
    assert in_image(engines) == {"application.py"}


def test_what_a_dockerignore_names_stays_out(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    files = ("data/all.csv", "data/small.csv", "notes.md", "dev.key", ".env", "a/b.log", "a/c")
    app = secretive(tmp_path / "app", *files)
    (app / ".dockerignore").write_text(
        "# what only developers need\n\ndata\n!data/small.csv\n/*.md\n**/*.log\n!dev.key\n"
        "!hook.headers\n.dockerignore\n"
    )
    code, said = build(str(app), "-t", "votes:1")
    assert code == 0, said
    assert in_image(engines) == {"application.py", "data/small.csv", "dev.key", "a/c"}
    assert (
        "left out of the image (by .dockerignore): .dockerignore, a/b.log, data/all.csv, notes.md\n"
    ) in said


def test_a_line_of_a_dockerignore_that_is_no_pattern_is_told(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    app = secretive(tmp_path / "app")
    (app / ".dockerignore").write_text("notes\n[z-a]\n")
    code, said = build(str(app), "-t", "votes:1")
    assert code == 2
    assert "line 2 of .dockerignore is no pattern: '[z-a]' (bad character range z-a)" in said


def test_links_do_not_lead_out_of_the_application(engines: Path, tmp_path: Path) -> None:
    install(engines, "docker")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary").write_text("mine")
    app = secretive(tmp_path / "app", "lib/words", ".env")
    (tmp_path / "linked").symlink_to(app)
    for name, leads_to in {
        "out": tmp_path / "private",
        "diary": Path("../private/diary"),
        "nowhere": Path("gone"),
        "settings": Path(".env"),
        "words": app / "lib" / "words",
        "lib/all": Path("..", "lib"),
    }.items():
        (app / name).symlink_to(leads_to)
    code, said = build(str(tmp_path / "linked"), "-t", "votes:1")
    assert code == 0, said
    copied = engines / "context" / "app"
    assert in_image(engines) == {"application.py", "lib/words", "words"}
    assert (copied / "words").readlink() == Path("lib/words")
    assert (copied / "lib" / "all").readlink() == Path()
    assert (
        "left out of the image (links that lead nowhere, or out of the directory): "
        "diary, nowhere, out\n"
    ) in said
    assert ".env, settings\n" in said
