#!/usr/bin/env python3
"""Times training steps of a network of 1,863,690 parameters with DistributedDataParallel: its own all-reduce over gloo
and hooks of PyTorch's beside sparse hooks, in turns, so that all see the same machine. hosts.sh starts it, one process
a rank.

Each method has a model of its own. In every round every method does some steps; a step is forward, backward with the
exchange, and the optimiser. Rank 0 prints a line of CSV for each method: medians and quartiles over all rounds; and
for its own process the processor's time of a step, and the bytes that its network card has sent. What auto chose goes
to the standard error.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import sparsecoll
import sparsecoll.torch as sct

# Over gloo PowerSGD's hook ends the process where it has several buckets under way (messages of other sizes cross,
# pair.cc). PyTorch 1.13 has two at least and ends; 2.15 can have one.
POWER_SGD = [] if torch.__version__.startswith("1.") else ["powersgd:1", "powersgd:4"]
ONE_BUCKET = {"bucket_cap_mb": 100}
SETTLING = 5  # steps before any is timed: buckets are cut anew, PowerSGD and reducers begin
TRIALS = 20  # more of them for auto


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
                               torch.nn.ReLU(), torch.nn.Linear(1024, 10))


def exchange_nothing(_, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Method:
    """A name is "gloo", "fp16", "powersgd:RANK", "local" (the network alone), "idle" (a hook that exchanges nothing), or
    a preset and its density: topka:0.01; attach:topka:0.01 with SGD's momentum in front of the exchange."""

    def __init__(self, name, config):
        self.name = name
        self.model = network()
        self.state, self.seconds, self.processor, self.bytes = None, [], [], []
        if name != "local":
            self.model = DistributedDataParallel(self.model, **(ONE_BUCKET if name.startswith("powersgd:") else {}))
        if name == "fp16":
            self.model.register_comm_hook(None, fp16_compress_hook)
        elif name == "idle":
            self.model.register_comm_hook(None, exchange_nothing)
        elif name.startswith("powersgd:"):
            state = PowerSGDState(None, matrix_approximation_rank=int(name.split(":")[1]), start_powerSGD_iter=2)
            self.model.register_comm_hook(state, powerSGD_hook)
        attached = name.startswith("attach:")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9 if attached else 0)
        if self.sparse:
            preset, density = name.split(":")[-2:]
            if attached:
                self.state = sct.attach(self.model, self.optimizer, float(density), preset, config=config)
            else:
                self.state = sct.DDPState(self.model, float(density), preset, config=config)
                self.model.register_comm_hook(self.state, sct.hook)

    @property
    def sparse(self):
        return self.name not in ("gloo", "fp16", "idle", "local") and not self.name.startswith("powersgd:")

    def step(self, images, labels):
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()

    def turn(self, data, steps, card, counted):
        dist.barrier()
        before, processor = sent(card), time.process_time()
        for step in range(steps):
            begin = time.perf_counter()
            self.step(*data[step % len(data)])
            if counted:
                self.seconds.append(time.perf_counter() - begin)
        if counted:
            self.bytes.append((sent(card) - before) / steps)
            self.processor.append((time.process_time() - processor) / steps)


def sent(card):
    counter = pathlib.Path("/sys/class/net", card, "statistics/tx_bytes")
    return int(counter.read_text()) if counter.is_file() else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(["gloo", "fp16", *POWER_SGD, "topka:0.01", "micro:0.01",
                                                              "attach:topka:0.01", "attach:micro:0.01", "auto:0.01",
                                                              "idle", "local"]))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="of each method in a round")
    parser.add_argument("--batch-size", type=int, default=16, help="of each rank")
    parser.add_argument("--transport", default="tcp", help="of the hooks: tcp, ucx or auto")
    parser.add_argument("--card", default="lo", help="network interface")
    parser.add_argument("--label", default="", help="what each line begins with")
    parser.add_argument("--head", action="store_true", help="a line of names first")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", options.card)
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(dist.get_rank())
    data = [(torch.randn(options.batch_size, 784, generator=generator),
             torch.randint(10, (options.batch_size,), generator=generator)) for _ in range(8)]
    config = sparsecoll.Config(transport=options.transport, interface=options.card)
    methods = [Method(name, config) for name in options.methods.split(",")]
    for method in methods:
        method.turn(data, SETTLING + TRIALS * method.name.startswith("auto:"), options.card, False)
    for _ in range(options.rounds):
        for method in methods:
            method.turn(data, options.steps, options.card, True)
    if dist.get_rank() == 0:
        if options.head:
            print("rate,ranks,method,steps,median_ms,quartile_1_ms,quartile_3_ms,processor_ms,card_bytes_per_step,"
                  "times_as_fast")
        first = statistics.median(methods[0].seconds)
        for method in methods:
            low, median, high = statistics.quantiles(method.seconds, n=4)
            print(f"{options.label},{dist.get_world_size()},{method.name},{len(method.seconds)},{1000 * median:.1f},"
                  f"{1000 * low:.1f},{1000 * high:.1f},{1000 * statistics.median(method.processor):.1f},"
                  f"{statistics.median(method.bytes):.0f},{first / median:.2f}")
            for bucket in method.state.stats() if method.name.startswith("auto:") else ():
                print(f"{options.label}, {dist.get_world_size()} ranks: {bucket.plan} ({bucket.reason})",
                      file=sys.stderr)
    dist.barrier()
    for method in methods:
        if method.state:
            method.state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
