# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other by PyTorch before they have a communicator."""
import hashlib

import torch
import torch.distributed as dist

from .._errors import Mismatch


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


def agree(gather, **values):
    """Raises Mismatch on all ranks where a value differs. Collective."""
    digests = gather(b"".join(hashlib.sha256(repr(value).encode()).digest() for value in values.values()))
    for at, field in enumerate(values):
        if len({digest[32 * at:32 * at + 32] for digest in digests}) > 1:
            raise Mismatch(f"ranks have different {field}", field=field)
