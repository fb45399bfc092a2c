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


def agree(gather, **values):
    """Raises Mismatch on all ranks where a value differs. Collective."""
    digests = gather(b"".join(hashlib.sha256(repr(value).encode()).digest() for value in values.values()))
    for at, field in enumerate(values):
        if len({digest[32 * at:32 * at + 32] for digest in digests}) > 1:
            raise Mismatch(f"ranks have different {field}", field=field)
