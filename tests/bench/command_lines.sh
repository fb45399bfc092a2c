#!/usr/bin/env bash
# Every program has --help with its exit codes and --version, ends with 3 where its command line is wrong, and says what is
# wrong; what single programs refuse.
# usage: command_lines.sh VERSION PROGRAM...
set -euo pipefail
version=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $*"; cat "$dir/out"; exit 1; }

# expect STATUS TEXT COMMAND...
expect() {
  local wanted=$1 text=$2 status=0
  shift 2
  timeout 60 "$@" > "$dir/out" 2>&1 || status=$?
  [ $status = "$wanted" ] || fail "$* ended with $status, not $wanted"
  grep -qF -- "$text" "$dir/out" || fail "$* does not say: $text"
}

for program in "$@"; do
  name=$(basename "$program")
  expect 0 "Exit codes: 0 " "$program" --help
  expect 0 "--version" "$program" --help
  expect 0 "$name $version" "$program" --version
  [ "$(wc -l < "$dir/out")" = 1 ] || fail "$name --version says more than the version"
  operands=()
  [ "$name" != sparsecoll-fit ] || operands=(file.npy)
  [ "$name" != sparsecoll-flight ] || operands=(file.json)
  expect 3 "no-such-option" "$program" --no-such-option "${operands[@]}"
  case $name in
    sparsecoll-perf)
      expect 0 "ucx: srun, torchrun or sparsecoll-run -n P" "$program" --help
      expect 0 "tcp: srun, torchrun or sparsecoll-run -n P" "$program" --help
      expect 0 "=20" "$program" --help
      expect 3 "--ranks goes with --transport threads" "$program" --ranks threads:2 --transport ucx
      ! "$program" --help | grep -q 'mpi: ' ||
        expect 3 "--ranks goes with --transport threads" "$program" --ranks threads:2 --transport mpi
      # -n was the length once.
      expect 3 "--elements sets the length" "$program" -n 14728266
      expect 3 "say the same thing" "$program" --elements 5 -b 8
      expect 3 "is less than" "$program" -b 1M -e 1K
      expect 0 "262144 f32" "$program" -b 1K -e 1M -f 4 -d f32 --preset dense --dry-run
      [ "$(wc -l < "$dir/out")" = 6 ] || fail "-b 1K -e 1M -f 4 has $(wc -l < "$dir/out") sizes"
      expect 0 "500 f64" "$program" -b 4000 --ranks threads:2 -d f64 --preset dense --dry-run
      "$program" --ranks threads:2 -b 8K -n 2 -w 1 -c 0 --preset topka --csv "$dir/perf.csv" > "$dir/out" || fail "--csv"
      [ "$(grep -c '"topka"' "$dir/perf.csv")" = 1 ] || fail "the CSV lacks its row"
      # Where lengths differ, the conclusion says of which it speaks.
      expect 0 " topka at n 1000 (" "$program" --ranks threads:2 --elements 1000,2000 -n 2 -w 1 -c 0 --density 0.01 \
        --preset topka --against dense
      expect 0 " topka at threads:2, density 0.02 (" env SPARSECOLL_RATE=100M "$program" --ranks threads:2,threads:3 \
        --elements 1000 -n 2 -w 1 -c 0 --density 0.01,0.02 --preset topka --against dense
      grep -q "^# SPARSECOLL_RATE=100M has no effect" "$dir/out" || fail "a rate that threads ignore is not told"
      # Where auto takes dense, as it does here unless the machine is busy, nothing sparse was timed.
      expect 0 "auto took " "$program" --ranks threads:2 --elements 2000000 -n 2 -w 1 -c 0 --density 0.25 \
        --preset auto --against dense
      ! grep -q "auto took .*: dense," "$dir/out" || ! grep -q "Sparse is faster" "$dir/out" || fail "dense is judged"
      expect 3 "no preset auto" "$program" --nodes 2x2 --preset auto
      expect 3 "--as-topka goes with --in-turn" "$program" --as-topka
      expect 3 "--rest goes with --in-turn" "$program" --rest 1
      "$program" --ranks threads:2 --elements 3000 --density 0.01 --preset topka,micro,auto --against dense --in-turn 0.01 \
        --as-topka -n 4 -w 1 --csv "$dir/turns.csv" > "$dir/out" || fail "--in-turn"
      # MiCRO's density counts both ranks.
      for row in 1.0,\"dense 0.01,\"topka 0.02,\"micro 0.01,\"auto; do
        [ "$(grep -cE "(^|,)${row%,*},.*${row#*,}\"" "$dir/turns.csv")" = 1 ] || fail "--in-turn: no $row: $(cat "$dir/turns.csv")"
      done
      # Each number stands under the end of its column's title, however long the preset's name is.
      longest=$("$program" --list | awk '{ print length($1), $1 }' | sort -n | tail -n 1 | cut -d' ' -f2)
      "$program" --ranks threads:2 --elements 2000 --preset "dense,$longest" -n 2 --warmup 1 > "$dir/out" || fail "$longest"
      awk '/^ +n / { title = index($0, " total ") } title && !/^#/ && substr($0, title + 6, 1) != " " { exit 1 }
           title && !/^#/ && substr($0, title + 5, 1) == " " { exit 1 }' "$dir/out" || fail "columns are shifted"
      ;;
    sparsecoll-tune)
      expect 0 "tcp: srun, torchrun or sparsecoll-run -n P sparsecoll-tune" "$program" --help
      expect 0 "=64K" "$program" --help
      expect 3 "one rank alone" "$program" --ranks threads:1 -o "$dir/tuned.csv"
      expect 3 "one number of ranks" "$program" --ranks threads:2,threads:3 -o "$dir/tuned.csv"
      expect 3 "--density: 0 is not" "$program" --densities 0
      expect 3 "is less than" "$program" --ranks threads:2 -b 1M -e 1K
      expect 4 "nowhere/tuned.csv: cannot be written: No such file" "$program" --ranks threads:2 -o "$dir/nowhere/tuned.csv"
      ;;
    sparsecoll-quality)
      expect 3 "no sparse method" "$program" --preset nosuch
      expect 3 "--density" "$program" --density 2
      expect 0 "| topka, faithful |" "$program" -n 2000 --ranks 2 --steps 9 --preset topka --json "$dir/quality.json"
      [ "$(grep -c '"distribution"' "$dir/quality.json")" = 15 ] || fail "the JSON lacks rows"
      grep -q '"version"' "$dir/quality.json" || fail "the JSON does not say what was built"
      # A path that cannot be written is told before the work begins, a full disk keeps the file of an earlier run.
      expect 4 "nowhere/q.json: cannot be written: No such file" "$program" -n 2000 --ranks 2 --json "$dir/nowhere/q.json"
      before=$(cksum < "$dir/quality.json")
      status=0
      said=$( (ulimit -f 0 && trap '' XFSZ && exec "$program" -n 2000 --ranks 2 --steps 8 --preset topka \
        --json "$dir/quality.json") 2>&1) || status=$?
      [ $status = 4 ] || fail "without room for its JSON, $name ended with $status: $said"
      [[ $said == *"quality.json: cannot be written: File too large"* ]] || fail "without room for its JSON: $said"
      [ "$before" = "$(cksum < "$dir/quality.json")" ] || fail "the file of an earlier run is gone"
      [ ! -e "$dir/quality.json.part" ] || fail "a part of a file stays"
      expect 0 "exact histogram" "$program" -n 2000 --ranks 2 --steps 8 --preset topka --json /dev/null
      [ -c /dev/null ] || fail "/dev/null was replaced"
      ;;
    sparsecoll-run)
      expect 126 "sparsecoll-run: $dir/nowhere/sparsecoll-run-" env TMPDIR="$dir/nowhere" "$program" -n 1 true
      expect 126 "sparsecoll-run: " bash -c "ulimit -n 8; exec '$program' -n 8 true"
      ;;
    sparsecoll-flight)
      expect 3 "FILE is required" "$program"
      expect 3 "--last" "$program" --last -1 "$dir"
      expect 4 "$dir/none: " "$program" "$dir/none"
      expect 4 "no file of a flight recorder" "$program" "$dir"
      echo '{' > "$dir/sparsecoll-flight-damaged.json"
      expect 2 "sparsecoll-flight-damaged.json: " "$program" "$dir"
      expect 2 "[]" "$program" --json "$dir"
      ;;
    sparsecoll-kernels)
      expect 3 "a list of numbers" "$program" --n x
      expect 0 "about Google Benchmark's own" "$program" --n 1000 --density 0.01 --benchmark_filter=read \
        --benchmark_min_time=0.01
      ;;
  esac
done
echo "passed"
