"""The options of commands: each is declared here once, with the settings that it fills."""

from __future__ import annotations

from pathlib import Path

import click

from wallaroo.api.addresses import optional_addresses
from wallaroo.cli.application_options import ApplicationOptions
from wallaroo.cli.option_tree import Option, Options
from wallaroo.cli.option_types import (
    ADDRESS,
    FILE,
    LEVELS,
    PLACE,
    SETTING,
    NumberType,
    PlaceType,
    on_this_machine,
)
from wallaroo.dataflow.call_timeout import CALL_LIMIT_S
from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import ACCEPT, SKIP, UsageError
from wallaroo.gateway.dead_letters.store import DeadLetterLimits
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.gateway.settings import TrafficSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.settings import DashboardSettings, GatewayAccess, host_and_port
from wallaroo.system.tls import TLSFiles
from wallaroo.wire.framing import DEFAULT_MAX_FRAME

_MIB, _GIB = 1024**2, 1024**3
_DAY_S = 24 * 3600.0

_POSITIVE = NumberType(positive=True)

APPLICATION = ApplicationOptions()
LOG_LEVEL = Option(
    "--log-level",
    type=LEVELS,
    help="Lowest level of log events to show: debug, info, warning or error; optionally by "
    "part (driver, gateway, worker, spark, application), as in info,spark=debug.",
)
STATE_DIR = Option(
    "--state-dir",
    type=PLACE,
    callback=on_this_machine,
    help="State directory of the application, which resumes where it stopped when it is "
    "started with the same directory. `run`, `driver`, `check`, `state show`, `state export`, "
    "`sql`, `snapshot` and `restore` also take s3a://BUCKET/FOLDER, for state on an object store.",
)
STATE_DIR_OF_APP = STATE_DIR.but(
    required=False, show_default=".wallaroo/NAME OF THE APPLICATION, beside it"
)
READ_ARCHIVE = click.option(
    "--archive",
    type=PlaceType(exists=True, file_okay=False, stores=True),
    help="Also read what `--archive` of the run has moved to this directory, or s3a://BUCKET/FOLDER.",
)
SNAPSHOT = Option(
    "--snapshot",
    type=PLACE,
    help="A snapshot of the state directory, from `wallaroo snapshot`, or that directory itself: "
    "begin with the state as of its checkpoint, and with the messages after it.",
)
STATE_OF_APP = STATE_DIR_OF_APP.but(callback=None)
LOG_DIR = Option(
    "--log-dir",
    type=PlaceType(file_okay=False),
    required=False,
    help="The gateway's directory, with the log and the dead letters, where it is not the state "
    "directory: on a cluster, and for state on an object store, where APP says it otherwise.",
)
PARTITIONS = Option(
    "--partitions",
    type=click.IntRange(1),
    help="Number of partitions, the upper bound of parallelism. It is fixed when the state "
    "directory is created; only `wallaroo repartition` changes it.",
)
ACCEPT_LOST_JOURNAL = Option(
    ACCEPT,
    "accept_lost_journal",
    is_flag=True,
    help="Start even if the gateway's log is lost or older than the state: data that only it held "
    "is lost, and new offsets continue after those already processed. Also start if the state "
    "lacks the last chunks but the log still has their messages: they are processed again, and "
    "their outputs are sent a second time.",
)
HEALTH = Option(
    "--health",
    type=ADDRESS,
    help="Address of the health endpoints: /healthz, /readyz, /status.",
    write=host_and_port,
)
TAKE_OVER = Option(
    "--take-over",
    is_flag=True,
    help="Start beside one that runs, which is to end soon, and take over from it.",
)
DASHBOARD = Options(
    DashboardSettings,
    address=Option(
        "--ui",
        type=ADDRESS,
        help="Address of the dashboard and /metrics; anyone who can reach it can view them, "
        "unless there is a token and it is not a loopback address. If the port is in use, another "
        "one is chosen.",
        write=host_and_port,
    ),
    token_file=Option(
        "--ui-token-file",
        type=FILE,
        help="File with a token of at least 16 characters. Users who enter it in the "
        "dashboard may pause and resume the run, and replay and drop dead letters. Unless the "
        "dashboard is at a loopback address, it is required to view anything, as the password to "
        "any user name.",
        show_default="nobody may",
    ),
    names=Option(
        "--ui-name",
        multiple=True,
        metavar="NAME",
        help="Domain name under which browsers may reach the dashboard; may be repeated. "
        "Addresses and names without a domain need no entry.",
    ),
)

WORKERS = Option(
    "--workers",
    type=click.IntRange(1),
    help="Number of workers: executors of a cluster. On one machine each partition is a process, "
    "and this is the number of partitions of a new state directory.",
)
MASTER = Option("--master", help="Spark master URL.")
DRIVER_MEMORY = Option("--driver-memory", help="Java heap of the driver, as in 1g.")
FUNCTION_TIMEOUT = Option(
    "--function-timeout",
    type=NumberType(),
    help="Seconds that a function of the application may take for one message before the "
    "message becomes a dead letter, and `wallaroo check` fails; 0 for no limit.",
)
CALL_LIMIT = FUNCTION_TIMEOUT.but(default=CALL_LIMIT_S, show_default=True)
MAX_ENTITY = Option(
    "--max-entity-mib",
    type=click.IntRange(1),
    help="Maximum size of an entity when it is saved, in MiB. A message that lets an entity grow "
    "beyond it becomes a dead letter, and the entity is restored.",
    read=lambda mib: mib * _MIB,
    write=lambda size: size // _MIB,
)
STATE_MEMORY = Option(
    "--state-memory-gib",
    type=NumberType(),
    help="Memory, in GiB, that the entities of all partitions may take, in equal shares; 0 for no "
    "limit. Entities that were not used recently leave it for the local disk, and come back when "
    "their key does.",
    read=lambda gib: int(gib * _GIB),
    write=lambda size: size / _GIB,
)
SPARK_SETTINGS = Option(
    "--conf",
    type=SETTING,
    multiple=True,
    help="Spark setting; may be repeated.",
    read=lambda texts: dict(text.split("=", 1) for text in texts),
    write=lambda settings: tuple(f"{key}={value}" for key, value in settings.items()),
)
ENGINE = Options(
    EngineSettings,
    application=APPLICATION,
    workers=WORKERS,
    master=MASTER,
    call_limit_s=FUNCTION_TIMEOUT,
    entity_limit_bytes=MAX_ENTITY,
    state_bytes=STATE_MEMORY,
    spark=SPARK_SETTINGS,
)

GATEWAY = Option(
    "--gateway",
    type=ADDRESS,
    help="Address of the gateway's internal API. Only the application's own processes should "
    "be able to reach it.",
    write=host_and_port,
)
TOKEN_FILE = Option(
    "--token-file",
    type=FILE,
    help="File with the token that the gateway's internal API requires.",
)
GATEWAY_ACCESS = Options(
    GatewayAccess,
    address=GATEWAY,
    token_file=TOKEN_FILE,
    authorities=Option(
        "--gateway-ca",
        type=FILE,
        help="CA certificates (PEM) that the gateway's certificate is verified against; "
        "enables TLS.",
    ),
)


def _source_limits(connections: int, idle_s: float, frame_s: float) -> SourceLimits:
    return SourceLimits(connections, (connections + 1) // 2, idle_s, frame_s)


SOURCE_LIMITS = Options(
    SourceLimits,
    _source_limits,
    connections=Option(
        "--max-connections",
        type=click.IntRange(1),
        help="Maximum number of connections per source; a single address may open half as many.",
    ),
    idle_s=Option(
        "--idle-timeout",
        type=NumberType(),
        help="Seconds after which an idle sender is disconnected; 0 for never.",
    ),
    frame_s=Option(
        "--frame-timeout",
        type=NumberType(),
        help="Seconds within which a frame, or each 64 KiB of a large one, must arrive "
        "completely; otherwise its sender is disconnected. 0 for no limit.",
    ),
)


def _journal_limits(
    disk_bytes: int, keep_bytes: int, keep_s: float, archive: Path | None
) -> JournalLimits:
    if keep_s and not keep_bytes:
        msg = "--keep-messages-days needs --keep-messages-gib, the most that all of it may take"
        raise UsageError(msg)
    return JournalLimits(disk_bytes, keep_bytes=keep_bytes, keep_s=keep_s, archive=archive)


JOURNAL_LIMITS = Options(
    JournalLimits,
    _journal_limits,
    disk_bytes=Option(
        "--journal-limit-gib",
        type=_POSITIVE,
        help="Maximum size of the journal, in GiB of messages. When it is full, senders have "
        "to wait.",
        read=lambda gib: int(gib * _GIB),
        write=lambda size: size / _GIB,
    ),
    keep_bytes=Option(
        "--keep-messages-gib",
        type=NumberType(),
        help="Size, in GiB, of the part of the log that is kept after its messages are processed, "
        "for `wallaroo explain`. While the disk lacks space, less of it is kept.",
        read=lambda gib: int(gib * _GIB),
        write=lambda size: size / _GIB,
    ),
    keep_s=Option(
        "--keep-messages-days",
        type=NumberType(),
        help="Days after which what --keep-messages-gib keeps is removed; 0 for no limit.",
        read=lambda days: days * _DAY_S,
        write=lambda seconds: seconds / _DAY_S,
    ),
    archive=Option(
        "--archive",
        type=PLACE,
        metavar="DIR",
        help="Directory, or s3a://BUCKET/FOLDER on an object store, to which the part of the log "
        "is moved that is neither needed nor kept any more, compressed; it is not made. While it "
        "is missing, full or slow, 1 GiB waits for it.",
    ),
)
DEAD_LETTER_LIMITS = Options(
    DeadLetterLimits,
    size_bytes=Option(
        "--dead-letters-mib",
        type=_POSITIVE,
        help="Maximum size of all dead letters, in MiB. Beyond it, the oldest are removed "
        "and counted.",
        read=lambda mib: int(mib * _MIB),
        write=lambda size: size / _MIB,
    ),
    age_s=Option(
        "--dead-letters-days",
        type=_POSITIVE,
        help="Days after which dead letters are removed.",
        read=lambda days: days * _DAY_S,
        write=lambda seconds: seconds / _DAY_S,
    ),
)
TRAFFIC = Options(
    TrafficSettings,
    sources=SOURCE_LIMITS,
    journal=JOURNAL_LIMITS,
    on_error=Option(
        "--on-error",
        multiple=True,
        metavar="[SOURCE=]POLICY",
        help="What to do with a message that cannot be processed: set-aside keeps it as a "
        "dead letter (see `wallaroo dead-letters`), drop only counts it, stop stops the "
        "application before anything of its chunk is published. For one source, or for all and for "
        "outputs that a receiver refuses; may be repeated.",
        show_default="set-aside",
    ),
    source_tls=Options(
        TLSFiles,
        certificate=Option(
            "--in-tls-cert",
            type=FILE,
            help="Certificate of the sources (PEM); enables TLS on their ports.",
        ),
        key=Option(
            "--in-tls-key",
            type=FILE,
            help="Private key for --in-tls-cert (PEM).",
        ),
        authorities=Option(
            "--in-tls-client-ca",
            type=FILE,
            help="CA certificates (PEM) that client certificates of senders are verified "
            "against; senders without one are rejected.",
        ),
    ),
    sink_tls=Options(
        TLSFiles,
        certificate=Option(
            "--out-tls-cert",
            type=FILE,
            help="Client certificate to present to receivers (PEM).",
        ),
        key=Option(
            "--out-tls-key",
            type=FILE,
            help="Private key for --out-tls-cert (PEM).",
        ),
        authorities=Option(
            "--out-tls-ca",
            type=FILE,
            help="CA certificates (PEM) that receivers' certificates are verified against; "
            "enables TLS for connections to receivers.",
        ),
    ),
    skip_damaged=Option(
        SKIP,
        is_flag=True,
        help="Start even if records of the gateway's log do not match their checksums, or its end "
        "is missing: their bytes become dead letters, and the application resumes without them.",
    ),
    on_lost=Option(
        "--on-lost",
        type=click.Choice(["skip"]),
        help="skip lets sources and sinks continue if a topic, file, directory or database has "
        "lost records that were not read, or outputs that were delivered, as if each had "
        "on_lost='skip'. It applies until the application stops; omit it at the next start.",
        show_default="on_lost of each source and sink",
    ),
    trace_one_in=Option(
        "--trace-one-in",
        type=click.IntRange(1),
        help="Trace one in this many messages from socket to socket, if OpenTelemetry's "
        "environment variables (OTEL_EXPORTER_OTLP_ENDPOINT) enable tracing.",
    ),
)


def application_without_addresses(app: str, app_args: tuple[str, ...]) -> Application:
    """The application APP for commands that do not run it: addresses may be missing.

    Raises:
        UsageError: The application does not exist.
        ApplicationError: It does not load, or is not well formed.
    """
    with optional_addresses():
        return ApplicationRef(app, app_args, DEFAULT_MAX_FRAME).load()
