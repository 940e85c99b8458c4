"""Which message made an output, from the log of the real engine, whose gateway is killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.history.test_origins import offset_of, only, origin
from tests.spark.harness import APPS, PATIENCE_S, Receiver, kill_gateway, run, send
from wallaroo.cli.options import application_without_addresses

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
WORDS = [b"w%d x" % (number % 40) for number in range(3_000)]


def test_each_output_has_the_message_that_made_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Receiver("lines") as receiver, run(APPS / "word_count", receiver, state) as running:
        for sent in (1_000, 2_000, 3_000):
            send(running.sources[SOURCE], WORDS[sent - 1_000 : sent])
            receiver.wait_for(2 * sent)
            if sent == 2_000:  # the last outputs may come twice
                kill_gateway(running)
                running.wait_for_event("gateway restarted", PATIENCE_S)
        assert running.stop() == 0
    application = application_without_addresses(str(APPS / "word_count"), ())
    for number in random.Random(1).sample(range(1, 2 * len(WORDS) + 1), 40):
        found, made = origin(state, application, f"{SOURCE}:{number}")
        word, _, count = found.output.decode().partition(" => ")
        times = int(count) - 1
        expected = times if word == "x" else int(word.removeprefix("w")) + 40 * times
        assert offset_of(only(made)) == expected
        assert only(made).before["word_totals"].get(word, 0) == times
        assert found.output.strip() in {line.strip() for line in receiver.messages}
