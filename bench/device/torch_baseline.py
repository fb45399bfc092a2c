#!/usr/bin/env python3
"""What error feedback with exact top-k costs where it is written in PyTorch.

Per step: acc = residual + gradient, torch.topk of its magnitudes, the values of what was found, and zeros in their
places; then a sum scattered into a dense vector. Times are CUDA events around each part, medians over the steps. On a
machine without a device --device cpu runs the same with the host's clock. The JSON has rows like sparsecoll-device's,
which takes them into its table with --beside.
"""

import argparse
import json
import math
import statistics
import sys
import time


class Clock:
    """Microseconds between marks of steps, on the device or on the host."""

    def __init__(self, torch, device):
        self.torch = torch
        self.on_device = device.startswith("cuda")
        self.marks = []

    def mark(self):
        if self.on_device:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def gaps(self):
        if self.on_device:
            self.torch.cuda.synchronize()
            return [a.elapsed_time(b) * 1e3 for a, b in zip(self.marks, self.marks[1:])]
        return [(b - a) * 1e6 for a, b in zip(self.marks, self.marks[1:])]


NO_TORCH = 77
PARTS = ("accumulate", "topk", "gather", "clear", "scatter")


def row_of(n, density):
    return {"name": "torch_topk", "operation": "torch_topk", "who": "PyTorch", "n": n, "density": density}


def measure(torch, n, density, steps, warmup, device):
    k = max(int(density * n), 1)
    gradients = [torch.randn(n, device=device) for _ in range(2)]
    residual = torch.zeros(n, device=device)
    out = torch.zeros(n, device=device)
    clock = Clock(torch, device)
    # Nothing waits in between: a device that runs behind the host idles nowhere.
    for step in range(warmup + steps):
        clock.mark()
        residual.add_(gradients[step % 2], alpha=1 if step % 4 < 2 else -0.5)
        clock.mark()
        indices = torch.topk(residual.abs(), k, sorted=False).indices
        clock.mark()
        values = residual[indices]
        clock.mark()
        residual[indices] = 0
        clock.mark()
        out.zero_()
        out[indices] = values
        clock.mark()
    gaps = clock.gaps()
    each = len(PARTS) + 1  # the last gap lies between two steps
    times = [gaps[begin:begin + len(PARTS)] for begin in range(warmup * each, len(gaps), each)]
    # The sum into a dense vector is no part of a selection.
    selections = sorted(sum(gaps[:-1]) for gaps in times)
    row = row_of(n, density)
    row.update({"k": k, "wrong": abs(int(values.numel()) - k), "bytes": 12 * n, "replays": steps, "per_replay": 1})
    row.update({"median_us": statistics.median(selections), "best_us": selections[0],
                "p99_us": selections[math.ceil(0.99 * steps) - 1]})
    row["total_us"] = statistics.median(sum(gaps) for gaps in times)
    for part, name in enumerate(PARTS):
        row[name + "_us"] = statistics.median(gaps[part] for gaps in times)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", default="25000000,100000000,1000000000", help="elements, a list")
    parser.add_argument("--density", default="0.001,0.01", help="entries to select / n, a list")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"torch_baseline: {error}", file=sys.stderr)
        sys.exit(NO_TORCH)
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("torch_baseline: PyTorch sees no CUDA device")
    name = torch.cuda.get_device_name(arguments.device) if arguments.device.startswith("cuda") else arguments.device
    rows = []
    for n in (int(float(text)) for text in arguments.n.split(",")):
        for density in (float(text) for text in arguments.density.split(",")):
            try:
                row = measure(torch, n, density, arguments.steps, arguments.warmup, arguments.device)
            except RuntimeError as error:  # too little memory, for one
                row = {**row_of(n, density), "skipped": str(error).splitlines()[0]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"context": {"torch": torch.__version__, "device": name}, "benchmarks": rows}, file, indent=2)


if __name__ == "__main__":
    main()
