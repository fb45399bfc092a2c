#!/usr/bin/env python3
"""A program as it is without this library: ranks teach a network with DistributedDataParallel. ddp_three_lines.diff
makes its gradients sparse. Start it as ddp_cifar10.py."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)

teacher = torch.randn(64, 8)
torch.manual_seed(1 + dist.get_rank())
for step in range(100):
    inputs = torch.randn(32, 64)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(ddp(inputs), (inputs @ teacher).argmax(1))
    loss.backward()
    optimizer.step()
    if step % 99 == 0:
        print(f"rank {dist.get_rank()}, step {step}: loss {loss.item():.3f}", flush=True)
