#!/usr/bin/env python3
"""scripts/gpu-report on made-up records: steps beside their replays, and what it says of each target.

usage: gpu_report_test.py GPU_REPORT
"""

import json
import os
import subprocess
import sys
import tempfile

REPORT = sys.argv[1]
LENGTHS = (25000000, 100000000, 1000000000)


def operation(name, n, density, us, of_copy, wrong=0):
    return {"operation": name, "n": n, "density": density, "median_us": us, "best_us": us, "gbps": 1.0,
            "of_copy": of_copy, "of_inplace_add": 1.0, "wrong": wrong}


def step(preset, total, xroof, wrong=0, not_captured=None):
    row = {"n": LENGTHS[0], "density": 0.01, "preset": preset, "ranks": "threads:4", "total_us": total,
           "p99_us": total, "local_us": 7.0, "xroof": xroof, "speedup_dense": 2.0, "wrong": wrong,
           "not_captured": not_captured}
    if not_captured:
        row.update(dict.fromkeys(("total_us", "p99_us", "local_us", "xroof", "speedup_dense", "wrong")))
    return row


def reported(operations=(), torch=(), eager=(), replayed=()):
    """The Markdown's tables as {first cells: the other cells}, and the record."""
    with tempfile.TemporaryDirectory() as folder:
        raw = os.path.join(folder, "raw")
        os.mkdir(raw)
        with open(os.path.join(raw, "machine.txt"), "w", encoding="utf-8") as file:
            file.write("gpu made up\ndriver 1\ncommit abc\ndate 2026-01-31T00:00:00Z\nnvcc none\n")
        files = {"bench-operations.json": {"benchmarks": list(operations)} if operations else None,
                 "bench-torch.json": {"benchmarks": list(torch)} if torch else None,
                 "bench-steps-25000000.json": {"context": {"graph": False}, "rows": list(eager)} if eager else None,
                 "bench-steps-25000000-graph.json":
                     {"context": {"graph": True}, "rows": list(replayed)} if replayed else None}
        for name, content in files.items():
            if content:
                with open(os.path.join(raw, name), "w", encoding="utf-8") as file:
                    json.dump(content, file)
        results = os.path.join(folder, "results")
        subprocess.run([sys.executable, REPORT, raw, results], check=True, stdout=subprocess.DEVNULL)
        base = os.path.join(results, "made-up", "2026-01-31-abc")
        with open(base + ".json", encoding="utf-8") as file:
            record = json.load(file)
        with open(base + ".md", encoding="utf-8") as file:
            return file.read(), {row[0]: row[1:] for row in record["targets"]}


def places(name, us, of_copy):
    return [operation(name, n, density, us * n / LENGTHS[0], of_copy) for n in LENGTHS for density in (0.001, 0.01)]


def expect(targets, what, measured, verdict):
    assert targets[what][1:] == [measured, verdict], (what, targets[what])


def nothing_measured():
    text, targets = reported()
    assert len(targets) == 18, sorted(targets)
    for what, (asked, measured, verdict) in targets.items():
        assert asked[:2] in ("<=", ">=") and (measured, verdict) == ("-", "not measured"), what
    assert "| step of every preset, n 25000000: time over its roofline | <= 1.25 x | - | not measured |" in text


def everything_good():
    rows = places("exact_topk", 80, 0.86) + places("deft_select", 80, 0.81) + places("micro_select", 80, 0.9)
    rows += [operation("merge", 100000000, density, us, 0.5) for density, us in ((0.01, 45), (0.001, 9.5))]
    rows.append({"operation": "merge", "n": 1000000000, "density": 0.01, "skipped": "too little memory"})
    torch = [{"n": n, "density": density, "total_us": 500 * n / LENGTHS[0], "scatter_us": 100 * n / LENGTHS[0],
              "wrong": 0, "name": "torch_topk"} for n in LENGTHS for density in (0.001, 0.01)]
    torch.append({"n": 5, "density": 0.01, "skipped": "no"})
    text, targets = reported(rows, torch, eager=[step("dense", 9, 9), step("topka", 100, 1.6), step("deft", 90, 1.2)],
                             replayed=[step("topka", 80, 1.2), step("deft", 0, 0, not_captured="it turns")])
    expect(targets, "exact top-k, density 0.01: share of copy bandwidth", "86.00 %", "met")
    expect(targets, "exact top-k, density 0.001, n 1000000000", "3200.00 us", "met")
    expect(targets, "micro_select: share of copy bandwidth", "90.00 %", "met")
    expect(targets, "sage_select: share of copy bandwidth", "-", "not measured")
    expect(targets, "exact top-k: times faster than in PyTorch", "5.00 x", "met")
    expect(targets, "merge of 8 lists, n 100000000, density 0.01", "45.00 us", "met")
    expect(targets, "merge of 8 lists, n 100000000, density 0.001", "9.50 us", "met")
    expect(targets, "DEFT of 300 tensors: time over its roofline", "1.23 x", "met")
    expect(targets, "step of topka, n 25000000: time over its roofline", "1.20 x", "met")  # the replays'
    expect(targets, "step of deft, n 25000000: time over its roofline", "1.20 x", "met")  # there are none
    assert "step of dense, n 25000000: time over its roofline" not in targets
    assert "| 25000000 | 0.01 | topka | threads:4 | 100.0 | 100.0 | 7.0 | 1.60 | 0 | 2.00 | 80.0 |" in text
    assert "| deft | threads:4 | 90.0 | 90.0 | 7.0 | 1.20 | 0 | 2.00 | not captured: it turns |" in text
    assert "| 25000000 | - | dense | threads:4 | 9.0 | 9.0 | 7.0 | 9.00 | 0 | 2.00 | - |" in text


def something_bad():
    rows = [operation("exact_topk", LENGTHS[0], 0.001, 83, 0.84), operation("exact_topk", LENGTHS[1], 0.001, 300, 0.9),
            operation("deft_select", LENGTHS[0], 0.01, 80, 0.9, wrong=3),
            operation("sage_select", LENGTHS[0], 0.01, 80, 0.95)]
    torch = [{"n": LENGTHS[0], "density": 0.001, "total_us": 200, "scatter_us": 0, "wrong": 0, "name": "torch_topk"}]
    _, targets = reported(rows, torch, replayed=[step("topka", 80, 1.26)])
    expect(targets, "exact top-k, density 0.001: share of copy bandwidth", "84.00 %", "not met")
    expect(targets, "exact top-k, density 0.001, n 25000000", "83.00 us", "not met")
    expect(targets, "exact top-k, density 0.001, n 100000000", "300.00 us", "met")
    expect(targets, "DEFT of 300 tensors: time over its roofline", "1.11 x", "wrong result")
    expect(targets, "sage_select: share of copy bandwidth", "95.00 %", "met in 1 of 6, the rest is not measured")
    expect(targets, "exact top-k: times faster than in PyTorch", "2.41 x", "not met")
    expect(targets, "step of topka, n 25000000: time over its roofline", "1.26 x", "not met")


nothing_measured()
everything_good()
something_bad()
print("passed")
