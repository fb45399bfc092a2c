# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other by PyTorch's process groups, and how the wait for that ends where a rank has ended."""
import dataclasses
import datetime
import hashlib
import time

import torch
import torch.distributed as dist

from .._communicator import Config
from .._errors import Aborted, Mismatch, PeerFailed

_UNTOLD = 600.0  # seconds, the library's own
_LOOK = datetime.timedelta(seconds=0.2)  # between two looks at the other ranks
_GRACE = 1.0  # seconds for what a rank that has ended, or others behind it, have still sent
_MOMENT = 1.5  # seconds until the end of a rank is known


def gatherer(group, ranks, communicator=None):
    """A function for Communicator.from_all_gather, over a process group that takes tensors in host memory.
    communicator: of the same ranks, where there is one already."""
    def gather(data):
        mine = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        parts = [torch.empty_like(mine) for _ in range(ranks)]
        if communicator is None:
            dist.all_gather(parts, mine, group=group)
        else:
            complete(communicator, dist.all_gather, parts, mine, group=group)
        return [bytes(part.tolist()) for part in parts]

    return gather


def agree_on_group(of_model, group):
    """Raises Mismatch on all ranks of the model's process group unless all name the same group, or all none. They tell
    each other by the model's group: those who named different ones would wait in them for ever. Collective."""
    ranks = dist.get_world_size(of_model)
    names = [None] * ranks
    dist.all_gather_object(names, _text_of(group), group=of_model)
    if len(set(names)) > 1:
        told = "; ".join(f"rank {rank}: {name}" for rank, name in enumerate(names))
        raise Mismatch(f"ranks named different process groups ({told})", field="group")


def _text_of(group):
    if group is None:
        return "none"
    if not isinstance(group, dist.ProcessGroup):
        return "one that it is not in"
    known = dist.distributed_c10d
    return f"{known._pg_names[group]!r} of ranks {sorted(known._pg_group_ranks[group])}"


def waits_as(group, config):
    """config, in which an op_timeout that nobody has given is that of the process group."""
    config = config or Config()
    if config.op_timeout is None:
        config = dataclasses.replace(config, op_timeout=_timeout_of(group))
    config._struct()  # what is wrong shows before ranks wait for each other
    return config


def _timeout_of(group):
    try:
        backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group  # PyTorch 1
        seconds = backend.options._timeout.total_seconds()
    except (AttributeError, RuntimeError):  # a back end that does not tell, or none for host memory
        return _UNTOLD
    return seconds if seconds > 0 else float("inf")


class _Watch:
    """Of the ranks that a work in a process group needs."""

    def __init__(self, communicator):
        self._communicator, self._since = communicator, None

    def look(self):
        """The error that ends the wait for the work, None as long as there is hope."""
        if self._communicator.ended():
            return Aborted("the communicator was aborted while its rank waited in a process group")
        gone = self._communicator.peer_failure()
        if not gone.code:
            return None
        self._since = self._since or time.monotonic()
        return PeerFailed(gone.text, peer=gone.peer) if time.monotonic() - self._since >= _GRACE else None

    def name(self, error):
        """PeerFailed with the rank that has ended instead of a group's error, which names none: nor does this where no
        rank has ended. A rank that has only given up is not the one, but one that has closed its state is."""
        end = time.monotonic() + _MOMENT
        while True:
            gone = self._communicator.peer_failure()
            if gone.code == PeerFailed.code:
                return PeerFailed(gone.text, peer=gone.peer)
            if time.monotonic() >= end or self._communicator.ended():
                has_left = gone.code == 0 and gone.peer is not None
                return PeerFailed(gone.text, peer=gone.peer) if has_left else error
            time.sleep(0.01)


def _ends(work):
    """Whether it ends within a moment. Raises what it ends with."""
    try:
        work.wait(_LOOK)
    except RuntimeError:
        if not work.is_completed():
            return False
        work.wait()  # raises again, unless only the moment was over
    return True


def complete(communicator, call, *arguments, **options):
    """What the call begins in a process group is waited for until the communicator, of the same ranks, knows that one
    of them has ended: no group knows that of ranks that it does not hear from. A rank that has closed its state in good
    order does not end the wait, since what it has sent may still be under way: there the group's time-out does.

    Errors: PeerFailed (names the rank that has ended), Aborted (this rank's communicator), the group's own. With
    `under_way` it leaves the work to itself."""
    watch, error = _Watch(communicator), None
    try:
        work = call(*arguments, async_op=True, **options)
        while error is None and not _ends(work):
            error = watch.look()
    except RuntimeError as raised:
        error = watch.name(raised)
        if error is raised:
            raise
        raise error from raised
    if error is not None:
        error.under_way = True
        raise error


def agree(gather, **values):
    """Raises Mismatch on all ranks where a value differs. Collective."""
    digests = gather(b"".join(hashlib.sha256(repr(value).encode()).digest() for value in values.values()))
    for at, field in enumerate(values):
        if len({digest[32 * at:32 * at + 32] for digest in digests}) > 1:
            raise Mismatch(f"ranks have different {field}", field=field)
