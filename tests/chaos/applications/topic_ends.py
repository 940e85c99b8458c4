"""The sources and sinks of an application, which are topics or ports as its arguments say."""
# mypy: disable-error-code="no-untyped-def"

import argparse
import importlib.util
import sys
from pathlib import Path

import wallaroo

_APPS = Path(__file__).parents[3] / "apps"

TRANSACTION_MS = 10_000
"""Time after which the brokers end an open transaction: less than the gateway stands still."""


def application_of(folder):
    """The module of the application in *folder*, under a name that no other application has."""
    name = f"{folder}_application"
    if name not in sys.modules:
        sys.path.append(str(_APPS / folder))
        spec = importlib.util.spec_from_file_location(name, _APPS / folder / "application.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


class Ends:
    """Reads topics (`--read A,B`) and writes one (`--write C`), or else ports."""

    def __init__(self, args):
        parser = argparse.ArgumentParser()
        for name in ("brokers", "read", "write"):
            parser.add_argument(f"--{name}", default="")
        self._chosen, self._others = parser.parse_known_args(args)

    def source(self, decoder, number=0):
        """The source with this number."""
        if self._chosen.read:
            topic = self._chosen.read.split(",")[number]
            return wallaroo.KafkaSourceConfig(topic, self._chosen.brokers, decoder, on_lost="skip")
        host, port = wallaroo.tcp_parse_input_addrs(self._others)[number]
        return wallaroo.TCPSourceConfig(host, port, decoder)

    def sink(self, encoder, with_key):
        """The sink; *with_key* also returns the key of a record."""
        if self._chosen.write:
            settings = {"transaction.timeout.ms": TRANSACTION_MS}
            return wallaroo.KafkaSinkConfig(
                self._chosen.write,
                self._chosen.brokers,
                wallaroo.encoder(with_key),
                settings=settings,
            )
        host, port = wallaroo.tcp_parse_output_addrs(self._others)[0]
        return wallaroo.TCPSinkConfig(host, port, encoder, sequenced=True)
