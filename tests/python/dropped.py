"""A rank that trains in a function, whose state nobody closes, and ends. usage: dropped.py destroy|barrier|nothing"""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sparsecoll.torch as sct


def train():
    torch.manual_seed(1)
    ddp = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.Linear(200, 10)))
    state = sct.DDPState(ddp, density=0.05, preset="topka")
    ddp.register_comm_hook(state, sct.hook)
    for _ in range(5):
        ddp(torch.randn(8, 64)).square().mean().backward()


dist.init_process_group("gloo")
train()
if sys.argv[1] == "destroy":
    dist.destroy_process_group()
elif sys.argv[1] == "barrier":
    dist.barrier()
print("the end", flush=True)
