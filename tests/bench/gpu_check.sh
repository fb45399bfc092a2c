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
ends 2 "no such stage" --only sanitizer:everything
ends 2 "no list of lengths" --n 1e9
ends 2 "no list of lengths" --steps-n 5,,6

# A dry run names every program with its options, and touches nothing but its own folder.
ends 0 "would run for sanitizer:racecheck-steps: compute-sanitizer --tool racecheck" --dry-run --out "$folder/dry"
for words in "-DSPARSECOLL_CUDA_ARCHITECTURES=90-real" "bench:steps-25000000:" "--no-check" \
  "bench:steps-25000000-graph:" "bench:cub-100000000-0.01" "bench:torch: " "test:device_"; do
  grep -qF -- "$words" out || fail "a dry run does not say: $words"
done
ends 0 "bench:operations" --dry-run --only bench:operations --out "$folder/dry"
! grep -q "bench:steps\|sanitizer\|for build" out || fail "a part of a stage runs more"

# Packages that were carried along, with dpkg and without.
mkdir carried
"$python" - << 'PYTHON'
import io
import tarfile


def deb(path, names, damaged=False):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    control = io.BytesIO()
    with tarfile.open(fileobj=control, mode="w:gz") as archive:
        member = tarfile.TarInfo("./control")
        text = b"Package: made-up\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: made up\n"
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    with open(path, "wb") as file:
        file.write(b"!<arch>\n")
        for name, content in (("debian-binary", b"2.0\n"), ("control.tar.gz", control.getvalue()),
                              ("data.tar.xz", data.getvalue())):
            file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            file.write(content[:-9] if damaged and name == "data.tar.xz" else content + b"\n" * (len(content) % 2))


deb("carried/one.deb", ["./usr/include/made_up.h", "./usr/lib/x86_64-linux-gnu/cmake/made/madeConfig.cmake"])
deb("carried/two.deb", ["./usr/include/other.h"])
deb("escaping.deb", ["../escaped.h"])
deb("damaged.deb", ["./usr/include/made_up.h"], damaged=True)
PYTHON
export SPARSECOLL_CARRIED=$folder/carried
ends 0 "-DCMAKE_PREFIX_PATH=$(realpath "$folder")/dry/carried/usr" --dry-run --only build --out "$folder/dry"
[ "$(cat dry/carried/usr/include/made_up.h dry/carried/usr/include/other.h)" = abcabc ] || fail "packages were not unpacked"
for package in one two; do "$root/scripts/unpack-deb" carried/$package.deb by-hand > out 2>&1 || fail "unpack-deb"; done
diff -r by-hand dry/carried > out || fail "unpack-deb unpacks something else"
mkdir inside
for package in escaping damaged; do
  if "$root/scripts/unpack-deb" $package.deb inside/x > out 2>&1; then fail "unpack-deb takes $package.deb"; fi
done
[ ! -e inside/escaped.h ] || fail "unpack-deb writes beside its folder"
export SPARSECOLL_CARRIED=$folder/nowhere
ends 2 "no such folder" --dry-run --only build --out "$folder/dry"
unset SPARSECOLL_CARRIED

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
for part in ("operations", "steps-5000", "steps-5000-graph"):
    assert checks["bench:" + part] == "passed", checks
assert record["machine"]["commit"] == "abc 1" and record["broken"] == []
assert {row["n"] for row in record["device"]["benchmarks"]} == {4096}
assert [run["context"]["graph"] for run in record["steps"]] == [True, False]
for run in record["steps"]:
    assert [row["preset"] for row in run["rows"]] == ["dense", "topka", "micro"]
    assert all(row["wrong"] == 0 and row["not_captured"] is None for row in run["rows"]), run["rows"]
text = open(name.removesuffix(".json") + ".md", encoding="utf-8").read()
for words in ("| exact_topk | 4096 | 0.01 |", "| 5000 | 0.01 | micro | threads:4 |", "## Checks", "## Targets", "not measured"):
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
