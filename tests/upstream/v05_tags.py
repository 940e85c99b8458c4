"""0.5: keys that come as they come, with no list, an empty one or one to begin with; two sinks."""

# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    outputs = wallaroo.tcp_parse_output_addrs(args)

    ab = wallaroo.ApplicationBuilder("Tags")
    ab.new_pipeline("Posts", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(tags_of)
    if "listed" in args:
        ab.to_state_partition(count, Uses, "uses", tag, ["red", "blue"])
    elif "empty" in args:
        ab.to_state_partition(count, Uses, "uses", tag, [])
    else:
        ab.to_state_partition(count, Uses, "uses", tag)
    ab.to_sinks([wallaroo.TCPSinkConfig(host, port, encoder) for host, port in outputs])
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    if not bs:
        return None
    print("decoding", bs)
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="tags of a post")
def tags_of(post):
    return [word[1:] if word.startswith("#") else None for word in post.split()]


@wallaroo.partition
def tag(word):
    return word


class Uses(object):
    def __init__(self):
        self.count = 0


@wallaroo.state_computation(name="count")
def count(word, uses):
    uses.count += 1
    return ("%s %d" % (word, uses.count), True)


@wallaroo.encoder
def encoder(line):
    return (line + "\n").encode("utf-8")
