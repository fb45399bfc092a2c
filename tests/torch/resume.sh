#!/usr/bin/env bash
# A training that is stopped and resumed, by --stop-after and by a signal, ends with the bits of one that was not.
# usage: resume.sh TRAINER OPTIONS...
set -euo pipefail
trainer=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { echo "FAIL: $*"; exit 1; }
# What must be equal: parameters and everything measured on them, times left out.
numbers() { grep -E '"(preset|fingerprint|train_loss|sent_bytes_per_step|achieved_density|[a-z0-9_-]*accuracy)":' "$1"; }
compare() { diff <(numbers "$dir/whole.json") <(numbers "$1") || fail "$2 differs"; }

"$trainer" "$@" --json "$dir/whole.json" --metrics "$dir/whole.jsonl"
[ "$(numbers "$dir/whole.json" | grep -c fingerprint)" -ge 1 ] || fail "no results in the file"

echo "== stopped after a step of the first training, resumed, stopped in the next one, resumed"
"$trainer" "$@" --checkpoint "$dir/steps" --stop-after 9 2> "$dir/log"
grep -F -- "--resume $dir/steps" "$dir/log" || fail "it does not say how to go on"
"$trainer" "$@" --resume "$dir/steps" --stop-after 23 2> /dev/null
"$trainer" "$@" --resume "$dir/steps" --json "$dir/steps.json" --metrics "$dir/steps.jsonl"
compare "$dir/steps.json" "the resumed training"

echo "== resumed with its checkpoints elsewhere: the first one is left alone"
"$trainer" "$@" --checkpoint "$dir/first" --stop-after 9 2> /dev/null
(cd "$dir/first" && sha256sum -- *) > "$dir/sums"
"$trainer" "$@" --resume "$dir/first" --checkpoint "$dir/second" --stop-after 12 2> /dev/null
(cd "$dir/first" && sha256sum --quiet -c "$dir/sums") || fail "the checkpoint that it started from has changed"
[ -f "$dir/second/state.json" ] || fail "no second checkpoint"

echo "== resumed when it was done: the same table again"
"$trainer" "$@" --resume "$dir/steps" --json "$dir/again.json" > /dev/null
compare "$dir/again.json" "a finished run"

echo "== stopped by SIGINT, wherever it is then"
"$trainer" "$@" --epochs 1000000 --max-steps 100000 --checkpoint "$dir/signal" 2> "$dir/log" &
until grep -F "/100000" "$dir/log"; do
  kill -0 $! || fail "it ended early"
  sleep 0.1
done
kill -INT $!
status=0
wait $! || status=$?
cat "$dir/log"
[ $status = 130 ] || fail "exit status $status, not 130"
grep -F "stopped after step" "$dir/log" || fail "it does not say where it stopped"
[ -f "$dir/signal/state.json" ] || fail "no checkpoint"

echo "== refused"
status=0
"$trainer" "$@" --resume "$dir/nowhere" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "no checkpoint in" "$dir/log" || fail "a missing checkpoint"
status=0
"$trainer" "$@" --momentum 0.5 --resume "$dir/steps" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "momentum = 0.9, not 0.5" "$dir/log" || fail "a checkpoint of another run"
for file in "$dir/steps"/*-rank1.pt; do truncate -s -1000 "$file"; done
status=0
"$trainer" "$@" --resume "$dir/steps" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "rank 1" "$dir/log" || fail "a damaged checkpoint"
