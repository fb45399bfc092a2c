#!/usr/bin/env bash
# What scripts/gpu-half-hour measures, with programs whose device code runs on the CPU, at lengths that are a small part:
# each program takes the words that the table gives it, and the report has what they measured.
# usage: half_hour.sh ROOT SPARSECOLL_DEVICE SPARSECOLL_PERF PYTHON
set -euo pipefail
export LC_ALL=C
root=$1 device=$2 perf=$3 python=$4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir bin programs
ln -s "$device" programs/sparsecoll-device
ln -s "$perf" programs/sparsecoll-perf
printf '#!/bin/sh\necho "Made-up, 580.1, 9.0"\n' > bin/nvidia-smi
printf '#!/bin/sh\necho "no PyTorch in this test"; exit 77\n' > bin/python3
# The program behind ncu's own options.
printf '#!/bin/sh\nwhile [ $# != 0 ] && [ ! -x "$1" ]; do shift; done\nexec "$@"\n' > bin/ncu
chmod +x bin/*

for number in 1 3 5; do
  status=0
  # Emulated threads on busy machines are slow.
  PATH=$folder/bin:$PATH "$python" "$root/scripts/gpu-half-hour" $number out --programs programs --commit "abc 1" \
    --shrink 10000 --scale 4 > "$number.txt" 2>&1 || status=$?
  cat "$number.txt"
  if grep -q "FAILED\|not run\|: [0-9]* out of time" "$number.txt"; then exit 1; fi
  [ $status = 0 ] || { echo "FAIL: $number ended with $status"; exit 1; }
done
"$python" "$root/scripts/gpu-report" --results results out > report.txt || { cat report.txt; exit 1; }
"$python" - << 'PYTHON'
import glob
import json

(name,) = glob.glob("results/made-up/*-abc-1.json")
record = json.load(open(name, encoding="utf-8"))
assert record["broken"] == [], record["broken"]
assert sorted({row["n"] for row in record["device"]["benchmarks"]}) == [2500, 10000, 100000]
assert all("exact_topk" in text and "micro_select" in text for text in [json.dumps(record["device"])])
presets = {(row["preset"], run["context"]["graph"]) for run in record["steps"] for row in run["rows"]}
assert presets == {(preset, graph) for preset in ("dense", "topka", "micro", "deft", "sidco-e", "spardl")
                   for graph in (False, True)}, presets
assert all(row["not_captured"] is None for run in record["steps"] for row in run["rows"])
checks = record["checks"]
assert checks["torch-25M"] == "skipped: no PyTorch in this test", checks
assert checks["cub-25M-0.001"] == "skipped: there is no sparsecoll-cub", checks
text = open(name.removesuffix(".json") + ".md", encoding="utf-8").read()
for words in ("| exact_topk | 2500 | 0.001 |", "| 2500 | 0.01 | micro | threads:4 |", "## Checks", "## Targets"):
    assert words in text, words
PYTHON
echo "passed"
