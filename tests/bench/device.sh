#!/usr/bin/env bash
# sparsecoll-device and sparsecoll-perf --backend cuda with device code that runs on the CPU: every case runs, counts
# what it has to, and the JSON says what the table says. Times mean nothing here.
# usage: device.sh SPARSECOLL_DEVICE SPARSECOLL_PERF PYTHON
set -euo pipefail
export LC_ALL=C
device=$1 perf=$2 python=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() {
  echo "FAIL: $*"
  cat out
  exit 1
}

small=(--n 20000 --density 0.01 --replays 2 --sets 2 --noises 2 --graph-bytes 1e6)
"$device" "${small[@]}" --json device.json > out || fail "the device's cases"
cat out
"$device" --list > list
"$python" - "$(wc -l < list)" <<'PYTHON' || fail "the device's JSON"
import json
import sys

file = json.load(open("device.json", encoding="utf-8"))
rows = {row["operation"]: row for row in file["benchmarks"]}
assert len(rows) == len(file["benchmarks"]) == int(sys.argv[1]), "every case once"
rivals = {"cub_topk": 12, "cub_sort": 12, "cub_select": 4}
assert {name for name, row in rows.items() if row["who"] != "sparsecoll"} == set(rivals)
assert file["context"]["graph_bytes"] == 1e6
assert file["context"]["device"]["processors"] > 0 and file["context"]["build"]["version"]
n, k = 20000, 200
thresholds = ("micro", "exdyna", "sidco_e", "sage", "gaussiank", "redsync", "dgc", "oktopk")
bytes_an_element = {"copy": 8, "inplace_add": 12, "read": 4, "fused_pass": 12, "exact_topk": 12,
                    "threshold_select": 4, "segmented_topk": 12, "huge_segment_topk": 12, "deft_select": 12.5}
bytes_an_element.update({f"{name}_{narrow}": 10 for name in ("fused_pass", "exact_topk") for narrow in ("bf16", "f16")})
bytes_an_element.update({f"{name}_select": 12 for name in thresholds})
bytes_an_element.update(rivals)
for name, each in bytes_an_element.items():
    assert rows[name]["bytes"] == each * n, name
for name, row in rows.items():
    assert "skipped" not in row, row
    assert row["wrong"] == 0 and row["n"] == n and row["median_us"] >= row["best_us"] > 0, row
    assert (row["of_copy"] is None) == (row["bytes"] == 0), row
assert rows["copy"]["of_copy"] == 1 and rows["inplace_add"]["of_inplace_add"] == 1
for name in ("exact_topk", "exact_topk_bf16", "exact_topk_f16"):
    assert rows[name]["counters"]["k"] == k and rows[name]["counters"]["selected_per_k"] == 1, rows[name]
for name in thresholds:  # twice k is what messages of some have room for; a loop of so few steps has not settled
    counters = rows[name + "_select"]["counters"]
    assert counters["k"] == k and 0.1 <= counters["selected_per_k"] <= 2 and counters["candidates_per_k"] > 0, counters
assert 0 < rows["deft_select"]["counters"]["selected_per_k"] < 1  # one rank's share
assert rows["threshold_select"]["counters"]["selected"] == rows["cub_select"]["counters"]["selected"] == k
assert rows["cub_topk"]["counters"]["k"] == rows["cub_sort"]["counters"]["k"] == k
entries, distinct = rows["merge"]["counters"]["entries"], rows["merge"]["counters"]["sum_entries"]
assert 1200 < entries < 2000 and distinct < entries
assert rows["merge"]["bytes"] == 8 * (entries + distinct)
assert rows["combine"]["bytes"] == 4 * n + 8 * entries
assert rows["combine_preserved"]["bytes"] == 8 * (entries + distinct)
assert rows["rule_deft"]["counters"]["fragments"] == 300
PYTHON

# Rows of other programs stand in the same table: of the lengths that are measured, and with the same shares.
cat > torch.json <<'JSON'
{"benchmarks": [
  {"name": "torch_topk", "operation": "torch_topk", "who": "PyTorch", "n": 20000, "density": 0.01, "median_us": 5,
   "best_us": 4, "p99_us": 6, "bytes": 240000, "wrong": 0},
  {"name": "torch_topk", "operation": "torch_topk", "who": "PyTorch", "n": 7, "density": 0.01, "skipped": "small"}]}
JSON
"$device" "${small[@]}" --only exact_topk --beside torch.json --json beside.json > out || fail "rows beside"
cat out
grep -qE '^torch_topk/n:20000/density:0.01 +PyTorch +5\.00 ' out || fail "no row of another program"
"$python" - <<'PYTHON' || fail "the JSON of rows beside"
import json

rows = {row["operation"]: row for row in json.load(open("beside.json", encoding="utf-8"))["benchmarks"]}
assert set(rows) == {"copy", "inplace_add", "read", "exact_topk", "torch_topk"}, rows
there, copy = rows["torch_topk"], rows["copy"]
assert abs(there["gbps"] - 48) < 1e-6 and abs(there["of_copy"] * copy["gbps"] - 48) < 1e-6, there
PYTHON

"$perf" --backend cuda --ranks threads:3 --elements 20011 --density 0.01 --preset topka,micro,deft,threshold,dense \
  --steps 3 --warmup 2 --against dense --json cuda.json > out || fail "steps on the device"
cat out
"$perf" --ranks threads:3 --elements 20011 --density 0.01 --preset topka,micro,deft,threshold,dense \
  --steps 3 --warmup 2 --against dense --json host.json > out || fail "steps on the host"
"$python" - <<'PYTHON' || fail "the JSON of steps"
import json

cuda = json.load(open("cuda.json", encoding="utf-8"))
host = json.load(open("host.json", encoding="utf-8"))
assert cuda["context"]["backend"] == "cuda" and cuda["context"]["device"]
assert host["context"]["backend"] == "host" and host["context"]["device"] is None
assert len(cuda["rows"]) == len(host["rows"]) == 5
for there, here in zip(cuda["rows"], host["rows"]):
    assert there["wrong"] == here["wrong"] == 0, there
    assert there["preset"] == here["preset"] and there["sum_hash"] == here["sum_hash"], there
    assert there["k"] == here["k"] and there["union"] == here["union"], (there, here)
    assert there["total_us"] > 0 and there["p99_us"] >= there["p50_us"] > 0, there
    assert there["select_us"] is None and there["xlocal"] is None and here["xlocal"] > 0, there
    assert there["speedup_dense"] > 0 and there["roofline_us"] > 0
PYTHON

# Replays of captured steps: nothing is wrong, and the sums are those of steps that were run.
steps=(--ranks threads:2 --elements 4001 --preset topka,micro --steps 2 --warmup 1)
"$perf" --backend cuda --graph "${steps[@]}" --json graph.json > out || fail "replayed steps"
cat out
"$perf" --backend cuda --graph --transactional "${steps[@]}" --json transactional.json > out ||
  fail "replayed transactional steps"
cat out
"$perf" --transactional "${steps[@]}" --json run.json > out || fail "the same steps on the host"
"$python" - <<'PYTHON' || fail "the JSON of replays"
import json

run = json.load(open("run.json", encoding="utf-8"))["rows"]
for name in ("graph", "transactional"):
    file = json.load(open(name + ".json", encoding="utf-8"))
    assert file["context"]["graph"] and file["context"]["transactional"] == (name == "transactional"), file["context"]
    for row, there in zip(file["rows"], run, strict=True):
        assert row["wrong"] == 0 and row["not_captured"] is None, row
        assert all(row[field] == there[field] for field in ("preset", "sum_hash", "k")), (row, there)
        assert row["total_us"] > 0 and row["p99_us"] >= row["p50_us"] > 0 and row["union"] > 0, row
PYTHON

# Rivals that are wrong are found out.
for rival in cub_topk cub_select; do
  status=0
  "$device" "${small[@]}" --n 20001 --only $rival --json wrong.json > out || status=$?
  [ $status = 2 ] || fail "$rival is wrong and ended with $status"
  grep -q '"wrong": [1-9]' wrong.json || fail "$rival is wrong, and its row says nothing"
done

# refused STATUS WORDS COMMAND...
refused() {
  local expected=$1 words=$2 status=0
  shift 2
  "$@" > out 2>&1 || status=$?
  [ $status = "$expected" ] || fail "$* ended with $status, not $expected"
  grep -qF -- "$words" out || fail "$* does not say: $words"
}
refused 3 "no such case" "$device" --only nothing
refused 3 "1024 to" "$device" --n 5
refused 3 "no file of rows" "$device" --beside list
refused 3 "no file of rows" "$device" --beside missing.json
refused 3 "there are host, cuda" "$perf" --backend rocm
refused 3 "on --backend cuda only" "$perf" --graph
refused 4 "no CUDA device 7" "$perf" --backend cuda:7 --elements 1000
refused 4 "cudaSetDevice" "$device" --device 7
echo "passed"
