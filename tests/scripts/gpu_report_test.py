#!/usr/bin/env python3
"""scripts/gpu-report on made-up records: steps beside their replays, and what it says of each target.

usage: gpu_report_test.py GPU_REPORT
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

REPORT = sys.argv[1]
LENGTHS = (25000000, 100000000, 1000000000)


def operation(name, n, density, us, of_copy, wrong=0):
    return {"operation": name, "n": n, "density": density, "median_us": us, "best_us": us, "gbps": 1.0,
            "of_copy": of_copy, "of_inplace_add": 1.0, "wrong": wrong}


def torch_row(n, density, us):
    return {"operation": "torch_topk", "n": n, "density": density, "median_us": us, "best_us": us, "wrong": 0}


def step(preset, total, xroof, wrong=0, not_captured=None):
    row = {"n": LENGTHS[0], "density": 0.01, "preset": preset, "ranks": "threads:4", "total_us": total,
           "p99_us": total, "local_us": 7.0, "xroof": xroof, "speedup_dense": 2.0, "wrong": wrong,
           "not_captured": not_captured}
    if not_captured:
        row.update(dict.fromkeys(("total_us", "p99_us", "local_us", "xroof", "speedup_dense", "wrong")))
    return row


MACHINE = "gpu made up\ndriver 1\ncommit {commit}\ndate 2026-01-31T00:00:00Z\nnvcc none\nseconds 3.0 of 420\n"


def command(place, number, machine=MACHINE.format(commit="abc"), checks="begin: passed (0.1 s)\n", archived=False,
            **results):
    """What one command leaves at a place; results: JSON by file name, or text."""
    name = f"gpu-half-hour-{number}"
    folder = os.path.join(place, name)
    os.makedirs(folder)
    files = {"machine.txt": machine, "checks.txt": checks, "nvidia.log": "\xff"}
    files.update({name + ".json": content if content == "{" else json.dumps(content)
                  for name, content in results.items()})
    for file, text in files.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            out.write(text)
    if archived:
        with tarfile.open(folder + ".tar.gz", "w:gz") as archive:
            archive.add(folder, name)
        shutil.rmtree(folder)
        folder += ".tar.gz"
    return folder


def joined(places, results):
    return subprocess.run([sys.executable, REPORT, "--results", results, *places], check=False, text=True,
                          capture_output=True)


def written(results, commit="abc"):
    base = os.path.join(results, "made-up", "2026-01-31-" + commit)
    with open(base + ".json", encoding="utf-8") as file:
        record = json.load(file)
    with open(base + ".md", encoding="utf-8") as file:
        return file.read(), record


def reported(operations=(), torch=(), eager=(), replayed=()):
    """The Markdown, and its targets as {what: the other cells}. What was measured comes in several commands' files."""
    with tempfile.TemporaryDirectory() as folder:
        half = len(operations) // 2
        files = {"operations-1": {"benchmarks": operations[:half]}, "operations-2": {"benchmarks": operations[half:]},
                 "torch-1": {"benchmarks": torch}, "steps-1": {"context": {"graph": False}, "rows": eager},
                 "steps-1-graph": {"context": {"graph": True}, "rows": replayed}}
        files = {name: content for name, content in files.items() if content.get("benchmarks", content.get("rows"))}
        first = {name: content for name, content in files.items() if name == "operations-1"}
        places = [command(folder, 1, archived=True, **first),
                  command(folder, 3, **{name: content for name, content in files.items() if name not in first})]
        results = os.path.join(folder, "results")
        done = joined(places, results)
        assert done.returncode == 0, done.stderr
        text, record = written(results)
        return text, {row[0]: row[1:] for row in record["targets"]}


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
    torch = [torch_row(n, density, 400 * n / LENGTHS[0]) for n in LENGTHS for density in (0.001, 0.01)]
    torch.append({"operation": "torch_topk", "n": 5, "density": 0.01, "skipped": "no"})
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
    assert "| torch_topk | 25000000 | 0.001 | 400.0 | exact_topk | 5.0 |" in text
    assert "| torch_topk | 25000000 | 0.001 | 400.0 | 400.0 | - | - | - | 0 |" in text
    assert "step of dense, n 25000000: time over its roofline" not in targets
    assert "| 25000000 | 0.01 | topka | threads:4 | 100.0 | 100.0 | 7.0 | 1.60 | 0 | 2.00 | 80.0 |" in text
    assert "| deft | threads:4 | 90.0 | 90.0 | 7.0 | 1.20 | 0 | 2.00 | not captured: it turns |" in text
    assert "| 25000000 | - | dense | threads:4 | 9.0 | 9.0 | 7.0 | 9.00 | 0 | 2.00 | - |" in text


def something_bad():
    rows = [operation("exact_topk", LENGTHS[0], 0.001, 83, 0.84), operation("exact_topk", LENGTHS[1], 0.001, 300, 0.9),
            operation("deft_select", LENGTHS[0], 0.01, 80, 0.9, wrong=3),
            operation("sage_select", LENGTHS[0], 0.01, 80, 0.95)]
    torch = [torch_row(LENGTHS[0], 0.001, 200)]
    _, targets = reported(rows, torch, replayed=[step("topka", 80, 1.26)])
    expect(targets, "exact top-k, density 0.001: share of copy bandwidth", "84.00 %", "not met")
    expect(targets, "exact top-k, density 0.001, n 25000000", "83.00 us", "not met")
    expect(targets, "exact top-k, density 0.001, n 100000000", "300.00 us", "met")
    expect(targets, "DEFT of 300 tensors: time over its roofline", "1.11 x", "wrong result")
    expect(targets, "sage_select: share of copy bandwidth", "95.00 %", "met in 1 of 6, the rest is not measured")
    expect(targets, "exact top-k: times faster than in PyTorch", "2.41 x", "not met")
    expect(targets, "step of topka, n 25000000: time over its roofline", "1.26 x", "not met")


def any_archives():
    """A folder of archives; a later measurement of the same replaces one; what is broken or failed is said."""
    with tempfile.TemporaryDirectory() as folder:
        first = [operation("exact_topk", LENGTHS[0], 0.001, 99, 0.5), operation("copy", LENGTHS[0], None, 40, 1)]
        second = [operation("exact_topk", LENGTHS[0], 0.001, 80, 0.9)]
        command(folder, 1, MACHINE.format(commit="unknown").replace("made up", "unknown"),
                "begin: passed (0.1 s)\npass: FAILED (timeout after 60 s; 65.0 s)\n", True,
                **{"operations-first": {"benchmarks": first}})
        command(folder, 3, archived=True, checks="begin: FAILED (cut off)\ncub: not run: out of time\n",
                **{"operations-25M": {"benchmarks": second}, "torch-25M": "{"})
        results = os.path.join(folder, "results")
        done = joined([folder], results)
        assert done.returncode == 0, done.stderr
        text, record = written(results)
        assert {row["operation"]: row["median_us"] for row in record["device"]["benchmarks"]} == \
            {"exact_topk": 80, "copy": 40}, record
        assert record["checks"] == {"pass": "FAILED (timeout after 60 s; 65.0 s)", "begin": "FAILED (cut off)",
                                    "cub": "not run: out of time"}, record
        assert record["broken"] == ["torch-25M.json"], record
        assert "| pass | FAILED (timeout after 60 s; 65.0 s) |" in text

        command(folder, 4, MACHINE.format(commit="def"), archived=True)
        done = joined([folder], results)
        assert done.returncode != 0 and "commit abc and commit def" in done.stderr, done.stderr
        os.mkdir(os.path.join(folder, "empty"))
        done = joined([os.path.join(folder, "empty")], results)
        assert done.returncode != 0 and "no machine.txt" in done.stderr, done.stderr


nothing_measured()
everything_good()
something_bad()
any_archives()
print("passed")
