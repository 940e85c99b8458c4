"""For programs beside an application: they send messages to it, and read its state.

These modules depend only on the standard library.
"""

from wallaroo.client.sender import Sender
from wallaroo.client.state import Entity, State

__all__ = ["Entity", "Sender", "State"]
