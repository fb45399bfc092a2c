"""Small models, their data, their training and their ranks, for tests of the hook for DistributedDataParallel."""
import contextlib
import os
import sys
import unittest.mock

import torch
import torch.distributed as dist

import launch
import sparsecoll
import sparsecoll.torch as sct
from sparsecoll.torch import _buckets

QUICK = sparsecoll.Config(op_timeout=300, init_timeout=300)


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 600), torch.nn.LayerNorm(600), torch.nn.ReLU(),
                               torch.nn.Linear(600, 450), torch.nn.ReLU(), torch.nn.Linear(450, 30))


class Parts(torch.nn.Module):
    """Two branches, of which a step uses those that it names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.branches = torch.nn.ModuleList([torch.nn.Linear(20, 300) for _ in range(2)])
        self.head = torch.nn.Linear(300, 30)

    def forward(self, inputs, used):
        return self.head(sum(torch.relu(self.branches[branch](inputs)) for branch in used))


def ddp_of(module=None, **options):
    """Its first bucket has 1 MB and the others less, so that there are several, which DDP cuts anew after one step."""
    return torch.nn.parallel.DistributedDataParallel(module or model_of(), bucket_cap_mb=0.03, **options)


def batch_of(step, rank=None):
    rank = dist.get_rank() if rank is None else rank
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(16, 20, generator=generator), torch.randn(16, 30, generator=generator)


def backward(ddp, step, factor=1):
    inputs, targets = batch_of(step)
    (factor * torch.nn.functional.mse_loss(ddp(inputs), targets)).backward()


def train(ddp, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        backward(ddp, step)
        optimizer.step()


@contextlib.contextmanager
def dense_takes(nanoseconds):
    """The dense sums that auto times take so long on this rank: whatever they take."""
    def measured(average):
        average()
        return nanoseconds

    with unittest.mock.patch.object(_buckets, "nanoseconds", measured):
        yield


def vector_of(ddp):
    return torch.cat([parameter.detach().reshape(-1) for parameter in ddp.parameters()])


def sgd(ddp, **options):
    return torch.optim.SGD(ddp.parameters(), lr=0.05, **options)


def replicas_of(ddp, group=None):
    """The parameters of all ranks of the group, a vector each."""
    mine = vector_of(ddp)
    all_ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_ranks, mine, group=group)
    return all_ranks


def assert_replicas_equal(ddp, group=None):
    first, *others = replicas_of(ddp, group)
    for other in others:
        assert torch.equal(first, other), "replicas differ"


def hooked(ddp, **options):
    state = sct.DDPState(ddp, config=QUICK, **{"preset": "topka", **options})
    ddp.register_comm_hook(state, sct.hook)
    return state


def in_ranks(function, ranks, meet=True):
    """[(exit status, output)] of processes that run `function`, one a rank. meet: in PyTorch's group of all of them."""
    def main():
        torch.set_num_threads(1)
        if meet:
            dist.init_process_group("gloo")
        function()
        sys.stdout.flush()
        os._exit(0)  # gloo's own threads may wait for a rank that is gone

    return launch.fork(main, ranks)


def run_tests(name):
    """Those of a class of the program's, in this rank."""
    assert unittest.main(argv=[sys.argv[0], name], verbosity=2, exit=False).result.wasSuccessful()
