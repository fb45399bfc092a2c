#!/usr/bin/env python3
"""Trains a small network on CIFAR-10 with DistributedDataParallel and sparse gradients, on CPUs.

Start it with torchrun, or one process a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT:

    torchrun --nproc-per-node=2 ddp_cifar10.py --data cifar-10-batches-bin

Without --data it trains on made-up images, which can be learnt. `scripts/prepare-data cifar10 DIR` fetches the real
ones.
"""
import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sparsecoll.torch as sct

RECORD = 1 + 3 * 32 * 32  # a label and an image


def read(files):
    """(images as float32 of N x 3 x 32 x 32, labels) of files in CIFAR-10's binary form."""
    images, labels = [], []
    for file in files:
        content = file.read_bytes()
        if not content or len(content) % RECORD:
            raise SystemExit(f"{file}: {len(content)} bytes are no whole number of records of {RECORD}")
        records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(-1, RECORD)
        labels.append(records[:, 0].long())
        images.append(records[:, 1:].reshape(-1, 3, 32, 32).float() / 127.5 - 1)
    return torch.cat(images), torch.cat(labels)


def load(folder):
    """((train images, labels), (test images, labels))"""
    if folder is not None:
        train = sorted(folder.glob("data_batch_*.bin"))
        if not train or not (folder / "test_batch.bin").is_file():
            raise SystemExit(f"{folder} has no data_batch_*.bin and test_batch.bin of CIFAR-10's binary form")
        return read(train), read([folder / "test_batch.bin"])
    generator = torch.Generator().manual_seed(7)
    means = torch.randn(10, 3, 32, 32, generator=generator)

    def make(count):
        labels = torch.randint(10, (count,), generator=generator)
        return means[labels] + 3 * torch.randn(count, 3, 32, 32, generator=generator), labels

    return make(4096), make(512)


def network():
    def block(inputs, outputs):
        return [torch.nn.Conv2d(inputs, outputs, 3, padding=1), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU(),
                torch.nn.MaxPool2d(2)]

    return torch.nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 128), torch.nn.Flatten(),
                               torch.nn.Linear(128 * 4 * 4, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(batch).argmax(1) == wanted).sum().item()
                    for batch, wanted in zip(images.split(256), labels.split(256)))
    model.train()
    return right / len(labels)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, help="folder with CIFAR-10's binary files; made-up images without")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32, help="images of each rank in a step")
    parser.add_argument("--preset", default="topka", help="dense: DistributedDataParallel as it is")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--rate", type=float, default=0.02)
    return parser.parse_args()


def main():
    options = arguments()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    (images, labels), test = load(options.data)

    ddp = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=options.rate, momentum=0.9)
    state = None
    if options.preset != "dense":
        state = sct.attach(ddp, optimizer, options.density, options.preset, training_steps=options.steps)

    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    begin = time.perf_counter()
    for step in range(options.steps):
        mine = torch.randint(len(labels), (options.batch_size,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    seconds = time.perf_counter() - begin

    if dist.get_rank() == 0:
        print(f"{options.preset}: test accuracy {100 * accuracy(ddp.module, *test):.1f} %, "
              f"{1000 * seconds / options.steps:.1f} ms per step")
        for bucket in state.stats() if state else []:
            print(f"  bucket of {bucket.elements} elements: {bucket.plan} ({bucket.reason}), density "
                  f"{bucket.density:g}, {bucket.bytes_sent} bytes instead of {bucket.bytes_dense}, "
                  f"{bucket.milliseconds:.1f} ms")
    dist.barrier()
    if state:
        state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
