"""0.5.4: a generator, by the keyword that it had."""

# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Squares")
    ab.new_pipeline("Numbers", wallaroo.GenSourceConfig(gen_instance=Numbers()))
    ab.to(computation=square)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


class Numbers(object):
    def initial_value(self):
        return 1

    def apply(self, v):
        return v + 1 if v < 40 else None


@wallaroo.computation(name="square")
def square(number):
    return number * number


@wallaroo.encoder
def encoder(number):
    return str(number) + "\n"
