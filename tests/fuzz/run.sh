#!/usr/bin/env bash
# Runs every fuzz target of a build for a while. With libFuzzer's programs from a corpus that is kept and grows; without
# them the drivers go on with random changes. What made a target end badly is left in BUILD/fuzz/.
# usage: run.sh BUILD SECONDS [TARGET...]
set -euo pipefail
build=$1 seconds=$2
shift 2
failed=0
cd "$build"
targets=("$@")
if [ $# = 0 ]; then
  for program in bin/fuzz_*; do
    case $program in *_long | *.input) ;; *) targets+=("${program#bin/fuzz_}") ;; esac
  done
fi
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
for target in "${targets[@]}"; do
  echo "== $target"
  if [ -x "bin/fuzz_${target}_long" ]; then
    corpus=fuzz/corpus/$target
    mkdir -p "$corpus"
    "bin/fuzz_$target" --write-seeds "$corpus" || { failed=1; continue; }
    "bin/fuzz_${target}_long" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=30 -max_len=8192 -print_final_stats=1 \
      -artifact_prefix="fuzz/$target-" "$corpus" 2>&1 |
      grep -vE '^#[0-9]+.*(NEW|REDUCE|pulse|RELOAD)' || failed=1
  else
    "bin/fuzz_$target" --runs 0 --seconds "$seconds" || failed=1
  fi
done
exit $failed
