#!/usr/bin/env python3
"""Trains a ResNet-20 on CIFAR-10 with DistributedDataParallel and sparse gradients, on CPUs.

Start it with torchrun, or one process a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT:

    torchrun --nproc_per_node=2 ddp_cifar10.py --data cifar-10-batches-bin

Without --data it trains on made-up images, which can be learnt. `scripts/prepare-data cifar10 DIR` fetches the real
ones.
"""
import argparse
import math
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy, pad
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

import sparsecoll.torch as sct

RECORD = 1 + 3 * 32 * 32  # a label and an image
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of CIFAR-10's pixels, from 0 to 1
PADDING = 4  # by which images move in training


def read(files, limit):
    """(images as bytes of N x 3 x 32 x 32, labels) of files in CIFAR-10's binary form."""
    images, labels = [], []
    for file in files:
        content = file.read_bytes()
        if not content or len(content) % RECORD:
            raise SystemExit(f"{file}: {len(content)} bytes are no whole number of records of {RECORD}")
        records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(-1, RECORD)
        labels.append(records[:, 0].long())
        images.append(records[:, 1:].reshape(-1, 3, 32, 32))
    return torch.cat(images)[:limit], torch.cat(labels)[:limit]


def load(options):
    """((train images, labels), (test images, labels))"""
    folder = options.data
    if folder is not None:
        train = sorted(folder.glob("data_batch_*.bin"))
        if not train or not (folder / "test_batch.bin").is_file():
            raise SystemExit(f"{folder} has no data_batch_*.bin and test_batch.bin of CIFAR-10's binary form")
        return read(train, options.train_limit), read([folder / "test_batch.bin"], options.test_limit)
    generator = torch.Generator().manual_seed(7)
    means = torch.randn(10, 3, 8, 8, generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)

    def make(count):
        labels = torch.randint(10, (count,), generator=generator)
        noisy = means[labels] + torch.randn(count, 3, 32, 32, generator=generator)
        return (128 + 40 * noisy).clamp(0, 255).to(torch.uint8), labels

    return make(options.train_limit or 4096), make(options.test_limit or 512)


def normalized(images):
    return (images / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


def augmented(images, generator):
    """The images as floats, moved by up to four pixels, every second one mirrored."""
    count, moves = len(images), 2 * PADDING + 1
    top, left = torch.randint(moves, (2, count, 1), generator=generator) + torch.arange(32)
    mirrored = torch.rand(count, generator=generator) < 0.5
    left[mirrored] = left[mirrored].flip(1)
    padded = pad(images, [PADDING] * 4).permute(0, 2, 3, 1)
    moved = padded[torch.arange(count)[:, None, None], top[:, :, None], left[:, None, :]]
    return normalized(moved.permute(0, 3, 1, 2))


def conv(inputs, outputs, stride=1):
    layer = torch.nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    torch.nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class Block(torch.nn.Module):
    """Two convolutions and a shortcut; where that changes shape it skips pixels and pads channels."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.missing = stride, outputs - inputs
        self.conv1, self.norm1 = conv(inputs, outputs, stride), torch.nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = conv(outputs, outputs), torch.nn.BatchNorm2d(outputs)

    def forward(self, images):
        hidden = self.norm2(self.conv2(self.norm1(self.conv1(images)).relu()))
        shortcut = images[:, :, ::self.stride, ::self.stride]
        return (hidden + pad(shortcut, [0, 0, 0, 0, self.missing // 2, self.missing - self.missing // 2])).relu()


def resnet20():
    """He et al. 2016, section 4.2."""
    layers = [conv(3, 16), torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for block in range(3):
            layers.append(Block(inputs, outputs, 2 if block == 0 and outputs > 16 else 1))
            inputs = outputs
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(normalized(batch)).argmax(1) == wanted).sum().item()
                    for batch, wanted in zip(images.split(256), labels.split(256)))
    model.train()
    return right / len(labels)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, help="folder with CIFAR-10's binary files; made-up images without")
    parser.add_argument("--train-limit", type=int, help="train on the first so many images")
    parser.add_argument("--test-limit", type=int)
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--steps", type=int, help="a training of so many steps, however many epochs these are")
    parser.add_argument("--batch-size", type=int, default=32, help="images of each rank in a step")
    parser.add_argument("--preset", default="topka", help="dense: DistributedDataParallel as it is")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--rate", type=float, default=0.2, help="the learning rate at its highest")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def learning_rate(step, steps):
    """Rises for a twelfth of the training and falls as a cosine, from 1 to 0."""
    rise = steps / 12
    return (step + 1) / (rise + 1) if step < rise else 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


def main():
    options = arguments()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo")
    torch.manual_seed(options.seed)
    (images, labels), test = load(options)
    sampler = DistributedSampler(range(len(labels)), seed=options.seed, drop_last=True)
    per_epoch = len(sampler) // options.batch_size
    if per_epoch == 0:
        raise SystemExit(f"{len(labels)} images are not enough for a step of {dist.get_world_size()} ranks")
    steps = options.steps or max(round(options.epochs * per_epoch), 1)

    ddp = DistributedDataParallel(resnet20())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=options.rate, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, steps))
    state = None
    if options.preset != "dense":
        state = sct.attach(ddp, optimizer, options.density, options.preset, training_steps=steps)

    generator = torch.Generator().manual_seed(1000 * options.seed + dist.get_rank())
    begin = time.perf_counter()
    for step in range(steps):
        if step % per_epoch == 0:
            sampler.set_epoch(step // per_epoch)
            batches = torch.tensor(list(sampler)).split(options.batch_size)
        mine = batches[step % per_epoch]
        optimizer.zero_grad()
        loss = cross_entropy(ddp(augmented(images[mine], generator)), labels[mine])
        loss.backward()
        optimizer.step()
        scheduler.step()
        if dist.get_rank() == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)
    seconds = time.perf_counter() - begin

    if dist.get_rank() == 0:
        print(f"{options.preset}: test accuracy {100 * accuracy(ddp.module, *test):.1f} %, "
              f"{1000 * seconds / steps:.1f} ms per step")
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
