# A secret in the headers of a webhook, and an address without a scheme.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built, encode


def application_setup(args):
    headers = {"Authorization": "Bearer 5c3r3t"}
    one = wallaroo.WebhookSinkConfig("https://hooks.example.org/orders", encode, headers=headers)
    other = wallaroo.WebhookSinkConfig("hooks.example.org/orders", encode)
    return built(LINES.to_sinks([one, other]))
