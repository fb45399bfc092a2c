#!/usr/bin/env bash
# One trainer at a tiny size on made-up data: 20 steps with some presets, sparsecoll-lstm with all, and a run that is
# stopped and goes on, which must end with the same bits as one that is not.
# usage: trainer.sh PROGRAM METRIC CHANGES OPTION...    CHANGES: options, with commas, that a stopped run cannot go on with
set -euo pipefail
program=$1 metric=$2 changes=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"  # away from any data
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

fail() { echo "FAIL: $*"; exit 1; }

# results FILE: what does not depend on time.
results() { grep -E "\"(preset|parameters|steps|fingerprint|train_loss|sent_bytes_per_step|achieved_density|$metric)\"" "$1"; }

presets=dense,topka,micro,spardl,oktopk,dgc least=6  # no method knows the model
if [ "${program##*-}" = lstm ]; then presets=all least=20; fi
"$program" "$@" --ranks 2 --density 0.05 --eval-every 0 --preset $presets --max-steps 20 --json all.json > table.txt \
  2> log.txt || fail "a preset: $(tail -n 1 log.txt)"
rows=$(results all.json | grep -c '"preset"')
[ "$rows" -ge $least ] || fail "$rows rows for $presets"
[ "$(results all.json | grep -c "\"$metric\": [0-9]")" = "$rows" ] || fail "a test without a number: $(results all.json)"
grep -q '"synthetic": "yes"' all.json || fail "the data is not labelled as made up"
grep -q SYNTHETIC log.txt || fail "nobody was told that the data is made up"

# check_resume STOPS OPTION...: the same bits with stops on the way, after these steps of a training, as without.
check_resume() {
  local stop resume=() stops
  IFS=, read -ra stops <<< "$1"
  shift
  local common=("${given[@]}" "$@" --ranks 2 --density 0.05 --max-steps 12 --checkpoint checkpoint --eval-every 0)
  "$program" "${common[@]}" --json straight.json > /dev/null 2> log.txt || fail "$*: $(tail -n 1 log.txt)"
  for stop in "${stops[@]}"; do
    "$program" "${common[@]}" "${resume[@]}" --stop-after "$stop" > /dev/null 2> log.txt ||
      fail "$*, stopped after $stop: $(tail -n 1 log.txt)"
    resume=(--resume checkpoint)
  done
  "$program" "${common[@]}" "${resume[@]}" --json resumed.json > /dev/null 2> log.txt ||
    fail "$*, resumed: $(tail -n 1 log.txt)"
  diff <(results straight.json) <(results resumed.json) || fail "$*: going on changed the results"
  rm -r checkpoint
}
given=("$@")
check_resume 7,7,7 --preset topka,micro,dgc  # once in each of the three trainings
if [ "${program##*-}" = lstm ]; then  # all trainers have one loop, which knows of these
  # Stopped in the middle of the warm-up, whose densities are 0.25 and 0.0625.
  check_resume 7 --preset deft --schedule-steps 4
  check_resume 7 --preset topka --no-recipe --sharding contiguous --density-schedule 0.5 0.2 --schedule-steps 4
  SPARSECOLL_RANKS_PER_NODE=1 check_resume 7 --preset topka,dense --over-nodes
fi
overlap=(--overlap)
case ${program##*-} in lstm | sentiment | speech) overlap+=(--clip 0) ;; esac  # clipping waits for the whole gradient
check_resume 7 --preset spardl "${overlap[@]}"

# Gradients of chosen steps, of every rank, as long as the model.
"$program" "$@" --ranks 2 --density 0.05 --preset topka --max-steps 4 --eval-every 0 --dump-gradients gradients \
  --dump-steps 1,3 --json dumped.json > /dev/null 2> log.txt || fail "gradients: $(tail -n 1 log.txt)"
parameters=$(grep -o '"parameters": [0-9]*' dumped.json | grep -o '[0-9]*')
for file in gradients/step00000{1,3}-rank{0,1}.npy; do
  head -c 128 "$file" | grep -qaF "'descr': '<f4', 'fortran_order': False, 'shape': ($parameters,)" ||
    fail "$file: $(head -c 128 "$file" | tr -dc '[:print:]')"
  [ "$(stat -c %s "$file")" = $((4 * parameters + 128)) ] || fail "$file has $(stat -c %s "$file") bytes"
done
[ "$(find gradients -type f | wc -l)" = 4 ] || fail "more gradients than asked for"
# With another setting of this trainer's own it is another run.
common=("$@" --ranks 2 --preset topka --max-steps 4 --checkpoint checkpoint --eval-every 0)
"$program" "${common[@]}" --stop-after 2 > /dev/null 2> log.txt || fail "stopped: $(tail -n 1 log.txt)"
IFS=, read -ra changes <<< "$changes"
for change in "${changes[@]}"; do
  read -ra words <<< "$change"
  ! "$program" "${common[@]}" "${words[@]}" --resume checkpoint > /dev/null 2> log.txt || fail "$change is not refused"
  grep -q "is of a run with" log.txt || fail "$change: $(tail -n 1 log.txt)"
done
# What is kept for later shows in the metrics.
for feedback in --error-feedback --no-error-feedback; do
  "$program" "$@" --ranks 2 --density 0.05 --preset topka --max-steps 3 $feedback --metrics metrics.jsonl > /dev/null 2>&1 ||
    fail "topka $feedback"
  kept=$(grep -o '"residual_norm":[^,}]*' metrics.jsonl | tail -n 1)
  if [ $feedback = --error-feedback ]; then
    [[ $kept =~ :.*[1-9] ]] || fail "no residual: $kept"
  else
    [[ $kept =~ :0(\.0)?$ ]] || fail "a residual without error feedback: $kept"
  fi
done
echo "$rows presets; $(results all.json | grep -m 1 parameters)"
