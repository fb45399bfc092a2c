"""A small model, its data and its training, for tests of the hook for DistributedDataParallel."""
import torch
import torch.distributed as dist

import sparsecoll

QUICK = sparsecoll.Config(op_timeout=60, init_timeout=60)


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 600), torch.nn.LayerNorm(600), torch.nn.ReLU(),
                               torch.nn.Linear(600, 450), torch.nn.ReLU(), torch.nn.Linear(450, 30))


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


def vector_of(ddp):
    return torch.nn.utils.parameters_to_vector(ddp.parameters()).detach().clone()


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
