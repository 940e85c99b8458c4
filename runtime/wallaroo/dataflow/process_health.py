"""Notices that a function of the application has damaged its process.

A process can go on for a while after a function has closed its connections, replaced parts of
Python or removed modules, and then fails, or does nonsense, where nothing points to the function.
`Health` compares a copy of the process (see `isolation`) with what it was. It uses nothing that
such a function could have replaced by the time it is asked.

Connections are of no use in a forked process, which could only disturb them: there, a file that
leads nowhere takes their place.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import json
import marshal
import operator
import os
import pickle
import socket
import stat
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from wallaroo.observability import log_channel

_STANDARD = 2
"""The last of the file descriptors that belong to user code."""
_WRAPPED = {"__import__", "input", "open", "print"}
"""Functions that libraries wrap when they are first used; the runtime is fine with that."""
_FUNCTIONS = {
    json: ("dumps", "loads"),
    marshal: ("dumps", "loads"),
    os: ("_exit", "close", "fork", "fstat", "getpid", "read", "waitpid", "write"),
    pickle: ("Pickler", "Unpickler", "dumps", "loads"),
    struct: ("Struct", "calcsize", "pack", "pack_into", "unpack", "unpack_from"),
    zlib: ("crc32",),
}
_all, _map, _is, _fstat, _dup2 = all, map, operator.is_, os.fstat, os.dup2
_sys, _loads, _dumps = sys, pickle.loads, pickle.dumps
_listdir, _DESCRIPTORS = os.listdir, "/dev/fd"
_EMPTY = socket.MSG_DONTWAIT

_Identity = tuple[int, int]
"""Device and inode of an open file, which its copies (`os.dup`) share."""
_connections: set[_Identity] = set()
"""The process's connections."""
_led_nowhere: list[int] = []
"""In a forked process: the file descriptors that were connections."""

PROBLEMS = (
    "",
    "the call closed or replaced a connection or a file of its process, or wrote to it",
    "the call replaced a part of Python, or a module, that its process needs",
)
"""What `Health.problem` returns means."""
_CONNECTIONS, _PYTHON = 1, 2


def note_connections(descriptors: Iterable[int] | None = None) -> None:
    """Note connections of this process, of which forked processes get none.

    Args:
        descriptors: Their file descriptors; None for all sockets that are open now.
    """
    if not _connections:
        _cut_off_forks()
    _connections.update(map(_identity, open_sockets() if descriptors is None else descriptors))


@functools.cache
def _cut_off_forks() -> None:
    os.register_at_fork(after_in_child=_cut_off)


def open_sockets() -> set[int]:
    """The file descriptors of sockets other than standard streams and the log's."""
    return set(_open_sockets()) - {*range(_STANDARD + 1), log_channel.descriptor()}


def _open_sockets() -> dict[int, _Identity]:
    found = {}
    for name in _listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # that of the directory itself is closed again
            status = _fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_dev, status.st_ino
    return found


def _identity(descriptor: int) -> _Identity:
    found = _fstat(descriptor)
    return found.st_dev, found.st_ino


def _still_open() -> list[int]:
    """The connections that have not been closed meanwhile, and their copies."""
    return [one for one, identity in _open_sockets().items() if identity in _connections]


def _cut_off() -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    _led_nowhere[:] = _still_open()
    for descriptor in _led_nowhere:
        _dup2(null, descriptor, inheritable=False)
    os.close(null)


class _Sample(NamedTuple):
    """An object of a class that is pickled by its name."""

    value: int


_SAMPLE = _Sample(1)


class Health:
    """What a forked process was like, to be compared with what it is.

    Args:
        needed: File descriptors that the process needs besides its connections.
    """

    def __init__(self, needed: Iterable[int]) -> None:
        self._peers: list[socket.socket] = []
        """The other ends of what stands for the connections."""
        self._files: dict[int, tuple[int, int]] = {}
        log = log_channel.descriptor()
        for descriptor in [*needed, *([] if log is None else [log])]:
            self._files[descriptor] = _identity(descriptor)
        for descriptor in _led_nowhere:
            ours, peer = socket.socketpair()
            _dup2(ours.fileno(), descriptor, inheritable=False)
            ours.close()
            self._peers.append(peer)
            self._files[descriptor] = _identity(descriptor)
        self._modules = sys.modules
        self._parts = [
            _part(vars(builtins), [name for name in vars(builtins) if name not in _WRAPPED]),
            _part(sys.modules, _modules_in_use()),
            *(_part(vars(module), functions) for module, functions in _FUNCTIONS.items()),
        ]

    def problem(self) -> int:
        """What the process lacks, an index of `PROBLEMS`; 0 if it lacks nothing."""
        try:
            return self._problem()
        except:  # noqa: E722 - a name might have gone
            return _PYTHON

    def _problem(self) -> int:
        if _sys.modules is not self._modules:
            return _PYTHON
        for namespace, names, objects in self._parts:
            if not _all(_map(_is, _map(namespace.get, names), objects)):
                return _PYTHON
        if _loads(_dumps(_SAMPLE, protocol=5)) != _SAMPLE:
            return _PYTHON
        return 0 if self._has_connections() else _CONNECTIONS

    def _has_connections(self) -> bool:
        try:
            for descriptor, (device, inode) in self._files.items():
                found = _fstat(descriptor)
                if found.st_ino != inode or found.st_dev != device:
                    return False
            for peer in self._peers:
                try:
                    peer.recv(1, _EMPTY)
                except BlockingIOError:
                    continue
                return False  # written to, or shut down
        except OSError:
            return False
        return True


def _modules_in_use() -> set[str]:
    """The names of the runtime's modules, and of those that they use."""
    used = set()
    for name, module in sys.modules.items():
        if name.partition(".")[0] == "wallaroo":
            imported = [one for one in vars(module).values() if isinstance(one, ModuleType)]
            used |= {name, *(one.__name__ for one in imported)}
    return used & sys.modules.keys()


def _part(
    namespace: Mapping[str, Any], names: Iterable[str]
) -> tuple[Mapping[str, Any], tuple[str, ...], tuple[Any, ...]]:
    known = tuple(names)
    return namespace, known, tuple(namespace[name] for name in known)
