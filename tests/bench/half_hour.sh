#!/usr/bin/env bash
# What scripts/gpu-half-hour measures, with programs whose device code runs on the CPU, in little and at lengths that are
# short: the report has what they measured.
# usage: half_hour.sh ROOT SPARSECOLL_DEVICE SPARSECOLL_PERF PYTHON
set -euo pipefail
export LC_ALL=C
root=$1 device=$2 perf=$3
python=$("$4" -c 'import sys; print(sys.executable)')  # a wrapper would put its own folder ahead of ours

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir bin programs
script() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" > "$1"
  chmod +x "$1"
}
few="--replays 2 --sets 2 --noises 2 --graph-bytes 1"
script programs/sparsecoll-device "exec '$device' \"\$@\" --only exact_topk,merge $few"
script programs/sparsecoll-rivals "exec '$device' \"\$@\" $few"
# One preset on two ranks; of the others nothing.
script programs/sparsecoll-perf "
words=(\"\${@/threads:4/threads:2}\")
case \"\$*\" in *topka*) exec '$perf' \"\${words[@]/0.01,0.001/0.01}\" --steps 2 --warmup 1 ;; esac
while [ \$1 != --json ]; do shift; done
echo '{\"context\": {}, \"rows\": []}' > \"\$2\""
script bin/nvidia-smi 'echo "Made-up, 580.1, 9.0"'
script bin/python3 'echo "no PyTorch in this test"; exit 77'

# Emulated threads on busy machines are slow.
status=0
PATH=$folder/bin:$PATH "$python" "$root/scripts/gpu-half-hour" 3 out --programs programs --commit "abc 1" \
  --shrink 100000 --scale 10 || status=$?
[ $status = 0 ] || { echo "FAIL: the benches ended with $status"; exit 1; }
"$python" "$root/scripts/gpu-report" --results results out > report.txt || { cat report.txt; exit 1; }
"$python" - << 'PYTHON'
import glob
import json

(name,) = glob.glob("results/made-up/*-abc-1.json")
record = json.load(open(name, encoding="utf-8"))
assert record["broken"] == [], record["broken"]
assert {(row["operation"], row["n"]) for row in record["device"]["benchmarks"]} >= {
    (operation, n) for operation in ("copy", "exact_topk", "merge") for n in (2048, 10000)}, record["device"]
assert {row["operation"] for row in record["device"]["benchmarks"]} >= {"cub_topk", "cub_sort", "cub_select"}
presets = {(row["preset"], run["context"]["graph"]) for run in record["steps"] for row in run["rows"]}
assert presets == {(preset, graph) for preset in ("dense", "topka") for graph in (False, True)}, presets
assert all(row["not_captured"] is None for run in record["steps"] for row in run["rows"])
checks = record["checks"]
assert checks["torch-25M"] == "skipped: no PyTorch in this test", checks
text = open(name.removesuffix(".json") + ".md", encoding="utf-8").read()
for words in ("| exact_topk | 2048 | 0.001 |", "| 2048 | 0.01 | topka | threads:2 |", "| cub_topk | 2048 | 0.01 |",
              "## Checks", "## Targets"):
    assert words in text, words
PYTHON
echo "passed"
