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
endless=("$@" --epochs 1000000 --max-steps 100000)
for i in "${!endless[@]}"; do  # gradients are written with one preset only
  if [ "${endless[i]}" = --preset ]; then endless[i + 1]=topka; fi
done
"$trainer" "${endless[@]}" --checkpoint "$dir/signal" 2> "$dir/log" &
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
steps=$(sed -nE 's/^ "step": ([0-9]+),?$/\1/p' "$dir/signal/state.json")
endless+=(--stop-after $((steps + 3)) --dump-steps $((steps + 3)))
"$trainer" "${endless[@]}" --resume "$dir/signal" --dump-gradients "$dir/resumed" 2> /dev/null
"$trainer" "${endless[@]}" --checkpoint "$dir/straight" --dump-gradients "$dir/whole" 2> /dev/null
[ "$(find "$dir/whole" -name '*.npy' | wc -l)" = 4 ] || fail "not four gradients"
diff -r "$dir/whole" "$dir/resumed" || fail "the gradients three steps after the signal differ"

echo "== refused"
status=0
"$trainer" "$@" --resume "$dir/nowhere" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "no checkpoint in" "$dir/log" || fail "a missing checkpoint"
status=0
"$trainer" "$@" --momentum 0.5 --resume "$dir/steps" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "momentum = 0.9, not 0.5" "$dir/log" || fail "a checkpoint of another run"
grey=/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////
grey+=wAALCAAIAAgBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKB
grey+=kaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWm
grey+=p6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/ACv/2Q==
for class in a b; do
  mkdir -p "$dir/images/train/$class" "$dir/images/val/$class"
  for i in 1 2; do base64 -d <<< "$grey" | tee "$dir/images/train/$class/$i.jpg" > "$dir/images/val/$class/$i.jpg"; done
done
folder=("$@" --data folder --data-dir "$dir/images" --ranks 2 --batch-size 2)
if "$trainer" "${folder[@]}" --image-size 32 --checkpoint "$dir/sized" --stop-after 1 2> "$dir/log"; then
  status=0
  "$trainer" "${folder[@]}" --image-size 40 --resume "$dir/sized" 2> "$dir/log" || status=$?
  [ $status = 1 ] && grep -F 'image_size = "32", not "40"' "$dir/log" || fail "a checkpoint of a run with other images"
else
  grep -F "libjpeg" "$dir/log" || { cat "$dir/log"; fail "a folder of images"; }
fi

echo "== a disk that is full: what was saved before stays, and nothing else"
"$trainer" "$@" --checkpoint "$dir/full" --stop-after 9 2> /dev/null
(cd "$dir/full" && sha256sum -- *) > "$dir/sums"
status=0
(trap "" XFSZ; ulimit -f 64; exec "$trainer" "$@" --resume "$dir/full" --stop-after 12 2> "$dir/log") || status=$?
[ $status = 1 ] && grep -F "File too large" "$dir/log" | grep -F "$dir/full/topka-step000012-rank" || fail "a full disk"
[ "$(wc -l < "$dir/log")" -le 20 ] || fail "too many lines about a full disk"
(cd "$dir/full" && sha256sum --quiet -c "$dir/sums") || fail "a full disk costs the checkpoint before"
[ "$(find "$dir/full" -type f | wc -l)" = 5 ] || fail "a full disk leaves something behind"
: > "$dir/full/topka-step000011-rank0.pt.part"  # of a run that was killed
"$trainer" "$@" --resume "$dir/full" --stop-after 12 2> /dev/null
[ "$(find "$dir/full" -type f -name '*-step000012-rank?.pt' | wc -l)" = 4 ] || fail "no checkpoint after a full disk"
[ "$(find "$dir/full" -type f | wc -l)" = 5 ] || fail "files of other states stay"

echo "== a bit that has turned"
flip() {
  local at=$(($(stat -c %s "$1") / 2)) byte
  byte=$(od -An -tu1 -j "$at" -N 1 "$1")
  printf '%b' "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}
for file in topka-step000012-rank2.pt state.json; do
  flip "$dir/full/$file"
  status=0
  "$trainer" "$@" --resume "$dir/full" --stop-after 15 2> "$dir/log" || status=$?
  [ $status = 1 ] && grep -F "$dir/full/$file is damaged" "$dir/log" || { cat "$dir/log"; fail "a bit of $file"; }
  flip "$dir/full/$file"
done
for file in "$dir/full"/*-rank1.pt; do truncate -s -1000 "$file"; done
status=0
"$trainer" "$@" --resume "$dir/full" 2> "$dir/log" || status=$?
[ $status = 1 ] && grep -F "rank1.pt is damaged" "$dir/log" || fail "a file that is cut off"
