# SPDX-License-Identifier: Apache-2.0
"""Sparse gradient averaging for PyTorch's DistributedDataParallel.

    import sparsecoll.torch as sct

    state = sct.DDPState(ddp, density=0.01)       # on every rank
    ddp.register_comm_hook(state, sct.hook)

Or, with the optimiser's momentum moved in front of the exchange, which learns faster:

    state = sct.attach(ddp, optimizer, density=0.01)

fsdp_hook is for FSDP2, between replicas of a sharded model.
"""
from ._buckets import BucketStats
from ._ddp import DDPState, hook, small_or_1d
from ._fsdp import FSDPState, fsdp_hook
from ._recipe import attach

__all__ = ["BucketStats", "DDPState", "FSDPState", "attach", "fsdp_hook", "hook", "small_or_1d"]
