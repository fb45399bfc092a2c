#!/usr/bin/env bash
# scripts/gpu-check as far as it goes without a GPU: it says that there is none; and with programs whose device code runs
# on the CPU it checks, measures and reports, and a failure is one in the report and in its exit status.
# usage: gpu_check.sh ROOT SPARSECOLL_DEVICE SPARSECOLL_PERF PYTHON
set -euo pipefail
export LC_ALL=C
root=$1 device=$2 perf=$3 python=$4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() {
  echo "FAIL: $*"
  cat out
  exit 1
}
# ends STATUS WORDS OPTIONS...
ends() {
  local expected=$1 words=$2 status=0
  shift 2
  "$root/scripts/gpu-check" "$@" > out 2>&1 || status=$?
  [ $status = "$expected" ] || fail "gpu-check $* ended with $status, not $expected"
  grep -qF -- "$words" out || fail "gpu-check $* does not say: $words"
}

if ! nvidia-smi > /dev/null 2>&1; then ends 2 "no GPU or no driver here" --out "$folder/none"; fi
ends 2 "no such stage" --only everything
ends 2 "no such option" --fast 1

mkdir programs
ln -s "$device" programs/sparsecoll-device
ln -s "$perf" programs/sparsecoll-perf
ln -s "$(type -P true)" programs/device_steps_test
printf '#!/bin/sh\nexit 77\n' > programs/skipped
chmod +x programs/skipped
ln -s skipped programs/device_other_test
check=(--programs "$folder/programs" --quick --n 4096 --steps-n 5000 --out "$folder/raw" --results "$folder/results"
  --commit "abc 1")
ends 0 "written:" "${check[@]}"
cat out
"$python" - << 'PYTHON' || fail "the report"
import glob
import json

(name,) = glob.glob("results/programs-from-programs/*.json")
assert name.endswith("-abc-1.json"), name
record = json.load(open(name, encoding="utf-8"))
checks = record["checks"]
assert checks["test:device_steps_test"] == "passed" and checks["test:device_other_test"] == "skipped", checks
assert checks["bench:operations"] == checks["bench:steps-5000"] == "passed", checks
assert record["machine"]["commit"] == "abc 1" and record["broken"] == []
assert {row["n"] for row in record["device"]["benchmarks"]} == {4096}
assert [row["preset"] for row in record["steps"][0]["rows"]] == ["dense", "topka", "micro"]
text = open(name.removesuffix(".json") + ".md", encoding="utf-8").read()
for words in ("| exact_topk | 4096 | 0.01 |", "| 5000 | 0.01 | micro | threads:4 |", "## Checks"):
    assert words in text, words
PYTHON

# Stages one at a time add to the same record, and a failed one stays in it.
ln -sf "$(type -P false)" programs/device_other_test
ends 1 "1 failed" --only tests,report "${check[@]}"
"$python" -c '
import glob, json
checks = json.load(open(glob.glob("results/*/*.json")[0], encoding="utf-8"))["checks"]
assert checks["test:device_other_test"] == "FAILED" and checks["bench:operations"] == "passed", checks
' || fail "the second report"
ln -sf "$folder/programs/skipped" programs/device_steps_test
ends 2 "the steps met no device" --only tests "${check[@]}"
echo "passed"
