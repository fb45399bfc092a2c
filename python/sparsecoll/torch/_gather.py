# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's process groups know of the ranks: before they have a communicator, and where a group fails."""
import dataclasses
import hashlib
import threading

import torch
import torch.distributed as dist

from .._communicator import Config
from .._errors import Error, Mismatch, PeerFailed
from .._reducer import all_reduce

_UNTOLD = 600.0  # seconds, the library's own
_MOMENT = 1.5  # seconds; the library takes one at most to find out who has ended


def gatherer(group, ranks):
    """A function for Communicator.from_all_gather, over a process group that takes tensors in host memory."""
    def gather(data):
        mine = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        parts = [torch.empty_like(mine) for _ in range(ranks)]
        dist.all_gather(parts, mine, group=group)
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


def lost_peer(communicator):
    """PeerFailed with the rank that has ended, None if there is none: a process group does not know which. Asks by a
    sum that ranks which still wait in the group do not come to: so whoever asks is to abort then. A rank that has only
    given up this question, or its own step, is not the one."""
    timer = threading.Timer(_MOMENT, communicator.abort)
    timer.start()
    try:
        all_reduce(communicator, torch.zeros(1), preset="dense")
        return None
    except PeerFailed as error:
        return None if f"rank {error.peer} aborted its communicator" in str(error) else error
    except Error:
        return None
    finally:
        timer.cancel()
        timer.join()


def agree(gather, **values):
    """Raises Mismatch on all ranks where a value differs. Collective."""
    digests = gather(b"".join(hashlib.sha256(repr(value).encode()).digest() for value in values.values()))
    for at, field in enumerate(values):
        if len({digest[32 * at:32 * at + 32] for digest in digests}) > 1:
            raise Mismatch(f"ranks have different {field}", field=field)
