#!/usr/bin/env bash
# Jobs by sparsecoll-run: ranks meet and sum; the first failure decides the status and ends the others; signals are passed
# on; nothing is left behind. The same on hosts, which a script in the place of ssh plays. Slurm, Open MPI, MPICH, torchrun
# and Kubeflow are played by their variables; Open MPI and MPICH start jobs, too, if they are here.
# usage: launch.sh SPARSECOLL_RUN LAUNCHED_PROGRAM STUCK_UCX FAKE_PMIX        exit code 77: this build has no libsodium
set -euo pipefail
run=$1 program=$2 stuck=$3 pmix=$4 mpi=$(dirname "$4")/libmpi_fake.so
folder=$(mktemp -d)
tools=$(mktemp -d)
trap 'rm -rf "$folder" "$tools"' EXIT
port=$((20000 + $$ % 8000))
export TMPDIR=$folder UCX_LOG_LEVEL=fatal
fail() { echo "FAIL: $*"; cat "$folder/out" 2> /dev/null; exit 1; }

# expect STATUS COMMAND...: output in $folder/out
expect() {
  local status=0 wanted=$1
  shift
  timeout 120 "$@" > "$folder/out" 2>&1 || status=$?
  [ "$status" = "$wanted" ] || fail "$*: status $status, expected $wanted"
}
clean() { [ "$(find "$folder" -mindepth 1 ! -name out | wc -l)" = 0 ] || fail "left behind: $(find "$folder")"; }

status=0
timeout 120 "$run" -n 1 "$program" > /dev/null 2>&1 || status=$?
[ "$status" != 77 ] || { echo "skipped: no libsodium here"; exit 77; }

expect 0 "$run" -n 4 --prefix -- "$program"
for rank in 0 1 2 3; do
  grep -q "^\[$rank\] rank $rank of 4 by sparsecoll-run: success$" "$folder/out" || fail "no word of rank $rank"
done
clean
echo "4 ranks met and summed"

# Rank 1 begins to end first; its peers, who learn of it at once, may be through sooner.
status=0
timeout 120 "$run" -n 3 --grace 20 "$program" fail 1 > "$folder/out" 2>&1 || status=$?
[ "$status" = 7 ] || [ "$status" = 3 ] || fail "a failed rank: status $status"
[ "$(grep -c 'peer failed' "$folder/out")" = 2 ] || fail "the others did not learn of it"
grep -q "ended with status $status" "$folder/out" || fail "the failed rank is not named"
expect 9 "$run" -n 3 --grace 20 bash -c '[ "$SPARSECOLL_RANK" = 1 ] && exit 9; sleep 1'
grep -q 'rank 1 ended with status 9' "$folder/out" || fail "the failed rank is not named"
expect 137 "$run" -n 2 --grace 20 bash -c '[ "$SPARSECOLL_RANK" = 1 ] && kill -9 $$; sleep 1'
grep -q 'rank 1 was ended by signal 9' "$folder/out" || fail "the killed rank is not named"
# The killed rank is named, however late its end is seen: its peers hold a pipe whose other end only that rank has.
for _ in $(seq 10); do
  rm -f "$folder/pipe"
  mkfifo "$folder/pipe"
  expect 137 "$run" -n 3 --grace 20 bash -c '
    if [ "$SPARSECOLL_RANK" = 1 ]; then exec 3> "$TMPDIR/pipe"; sleep 0.2; kill -9 $$; fi
    [ "$SPARSECOLL_RANK" = 2 ] && cat < "$TMPDIR/pipe"
    exit $(($SPARSECOLL_RANK == 2 ? 3 : 0))'
  grep -q 'rank 1 was ended by signal 9' "$folder/out" || fail "the killed rank is not named"
  grep -q 'after it, rank 2: ended with status 3' "$folder/out" || fail "the rank that ended after it is not named"
done
rm "$folder/pipe"
for _ in 1 2 3; do
  status=0
  timeout 120 "$run" -n 3 --grace 20 "$program" kill 1 > "$folder/out" 2>&1 || status=$?
  [ "$status" = 137 ] || fail "a killed rank: status $status"
  grep -q 'rank 1 was ended by signal 9' "$folder/out" || fail "the killed rank is not named"
  grep -q 'after it, ranks 0,2: ended with status 3' "$folder/out" || fail "the other ranks are not named"
done
clean
expect 9 "$run" -n 2 --grace inf bash -c '[ "$SPARSECOLL_RANK" = 1 ] && exit 9; sleep 7; touch "$0/out.lives"' "$folder"
[ -e "$folder/out.lives" ] || fail "--grace inf ends who goes on"
rm "$folder/out.lives"
expect 127 "$run" -n 2 --grace 0 "$folder/no-such-program"
expect 3 "$run" -n 0 "$program"
expect 3 "$run" -n 2
expect 0 "$run" --version
grep -qE '^sparsecoll-run [0-9]+\.[0-9]+\.[0-9]+$' "$folder/out" || fail "no version"
clean
echo "failures decide the status"

timeout 120 "$run" -n 2 "$program" wait > "$folder/out" 2>&1 &
job=$!
for _ in $(seq 600); do [ "$(grep -c waits "$folder/out")" = 2 ] && break; sleep 0.1; done
launcher=$(pgrep -P $job -x sparsecoll-run || echo $job)
kill -USR1 "$launcher"
status=0
wait $job || status=$?
[ "$status" = $((40 + 10)) ] || fail "after SIGUSR1: status $status"
clean
echo "signals are passed on"

# sparsecoll-run --grace 0: a rank that ignores its peers' failure is ended.
expect 1 "$run" -n 2 --grace 0 bash -c '[ "$SPARSECOLL_RANK" = 1 ] && exit 1; sleep 60'
clean

# A process that a rank has left behind, with its output in hand, does not keep sparsecoll-run.
expect 0 "$run" -n 2 --prefix bash -c 'sleep 300 & echo "$!" >> "$TMPDIR/helpers"; printf "the last word"'
while read -r helper; do kill "$helper"; done < "$folder/helpers"
rm "$folder/helpers"
[ "$(grep -c '^\[[01]\] the last word$' "$folder/out")" = 2 ] || fail "output of ranks with helpers was lost"
clean
echo "helpers that outlive their ranks hold up nothing"

# A parent may have signals ignored: SIGCHLD as daemons do, SIGHUP as nohup does.
cat > "$tools/ignoring" << 'EOF'
#!/usr/bin/env python3
import os, signal, sys
signal.signal(signal.Signals[sys.argv[1]], signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])
EOF
chmod +x "$tools/ignoring"
expect 9 "$tools/ignoring" SIGCHLD "$run" -n 2 --grace 20 bash -c '[ "$SPARSECOLL_RANK" = 1 ] && exit 9; sleep 0.2'
expect 0 "$tools/ignoring" SIGHUP "$run" -n 2 python3 -c 'import os, signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.kill(os.getppid(), signal.SIGHUP)
time.sleep(0.3)'
echo "signals that the parent has ignored change nothing"

# Who reads the output slowly gets all of it. Who does not read it at all does not keep sparsecoll-run from ending.
"$run" -n 2 --prefix bash -c 'seq 5000' | (sleep 3; cat) > "$tools/read"
[ "$(grep -c '^\[[01]\] [0-9]*$' "$tools/read")" = 10000 ] || fail "a slow reader has lost output"
mkfifo "$tools/full"
exec 9<> "$tools/full"
"$run" -n 2 --prefix bash -c 'seq 100000; sleep 300' > "$tools/full" 2> "$folder/out" &
launcher=$!
sleep 1
kill "$launcher"
for _ in $(seq 100); do
  kill -0 "$launcher" 2> /dev/null || break
  sleep 0.1
done
! kill -0 "$launcher" 2> /dev/null || fail "sparsecoll-run does not end while nobody reads its output"
status=0
wait "$launcher" || status=$?
[ "$status" = 143 ] || fail "ended with $status instead of the status of ranks that SIGTERM has ended"
exec 9>&-
clean
echo "output waits for its reader, and sparsecoll-run does not wait for it"

# What other launchers say.
play() {
  local rank pids=()
  for rank in 0 1 2; do
    env "${@//%/$rank}" "$program" >> "$folder/out" 2>&1 &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || fail "$* ended with $?"; done
}
: > "$folder/out"
play SLURM_PROCID=% SLURM_NTASKS=3 SLURM_LOCALID=% SLURM_NNODES=1 SLURM_JOB_ID=12 SLURM_STEP_ID=0 \
  SLURM_SUBMIT_DIR="$folder"
[ "$(grep -c 'of 3 by Slurm: success' "$folder/out")" = 3 ] || fail "Slurm's ranks did not meet"
play OMPI_COMM_WORLD_RANK=% OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=% \
  PMIX_NAMESPACE="test-$$" SPARSECOLL_LAUNCH_DIR="$folder"
[ "$(grep -c 'of 3 by Open MPI: success' "$folder/out")" = 3 ] || fail "Open MPI's ranks did not meet"
play PMI_RANK=% PMI_SIZE=3 MPI_LOCALNRANKS=3 MPI_LOCALRANKID=% SLURM_PROCID=0 SPARSECOLL_LAUNCH_DIR="$folder"
[ "$(grep -c 'of 3 by MPICH: success' "$folder/out")" = 3 ] || fail "MPICH's ranks did not meet"
play PMI_RANK=% PMI_SIZE=3 SPARSECOLL_LAUNCH_DIR="$folder"
[ "$(grep -c 'of 3 by PMI: success' "$folder/out")" = 3 ] || fail "PMI's ranks did not meet"
play RANK=% WORLD_SIZE=3 LOCAL_RANK=% LOCAL_WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=29500 \
  TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=% SLURM_PROCID=0 SLURM_NTASKS=1 SPARSECOLL_LAUNCH_DIR="$folder"
[ "$(grep -c 'of 3 by RANK: success' "$folder/out")" = 3 ] || fail "torchrun's ranks did not meet"
if command -v mpiexec.mpich > /dev/null; then
  expect 0 mpiexec.mpich -n 2 bash -c '"$0"; exit' "$program"  # bash stands between the starter and the rank
  [ "$(grep -c 'of 2 by MPICH: success' "$folder/out")" = 2 ] || fail "ranks of mpiexec did not meet"
fi
# Without a folder, at a port; with a secret and without one.
head -c 32 /dev/urandom > "$tools/secret"
chmod 600 "$tools/secret"
for secret in "" "$tools/secret"; do
  : > "$folder/out"
  play RANK=% WORLD_SIZE=3 LOCAL_RANK=% LOCAL_WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port \
    TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=% SPARSECOLL_SECRET_FILE="$secret" SPARSECOLL_LOG=warn
  [ "$(grep -c 'of 3 by RANK: success' "$folder/out")" = 3 ] || fail "torchrun's ranks did not meet"
  warnings=$(grep -c 'SPARSECOLL_SECRET_FILE names no file' "$folder/out" || true)
  [ "$warnings" = $((${#secret} == 0)) ] || fail "$warnings warnings with '$secret'"
  play RANK=% WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port SPARSECOLL_SECRET_FILE="$secret"
  [ "$(grep -c 'of 3 by RANK: success' "$folder/out")" = 6 ] || fail "Kubeflow's ranks did not meet"
  play SLURM_PROCID=% SLURM_NTASKS=3 SLURM_LOCALID=0 SLURM_NNODES=3 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 \
    SLURM_STEP_NODELIST=localhost SPARSECOLL_SECRET_FILE="$secret"
  [ "$(grep -c 'of 3 by Slurm: success' "$folder/out")" = 3 ] || fail "Slurm's ranks did not meet at a port"
done
play RANK=% WORLD_SIZE=3 MASTER_ADDR=localhost SPARSECOLL_PORT=$port SPARSECOLL_JOB=mine
[ "$(grep -c 'of 3 by RANK: success' "$folder/out")" = 9 ] || fail "ranks did not meet at SPARSECOLL_PORT"
# A word that is no level of the log is taken for "warn".
: > "$folder/out"
play RANK=% WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port SPARSECOLL_LOG=loud
[ "$(grep -c 'SPARSECOLL_SECRET_FILE names no file' "$folder/out")" = 1 ] || fail "no warning at a level that is none"
clean
expect 1 env PMI_RANK=1 PMI_SIZE=2 "$program"
grep -q 'unsupported' "$folder/out" || fail "ranks without a place to meet are not refused"
expect 1 env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=localhost "$program"
grep -q 'set MASTER_ADDR.*MASTER_PORT' "$folder/out" || fail "the missing variables are not named"
expect 1 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost SPARSECOLL_PORT=70000 "$program"
grep -q "SPARSECOLL_PORT is '70000'" "$folder/out" || fail "a wrong port is not named"
expect 1 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port SPARSECOLL_SECRET_FILE="$tools/none" "$program"
grep -q "secret file $tools/none: No such file" "$folder/out" || fail "a missing secret is not named"
for wrong in "3 2 rank 3 of 2" "0 0 0 ranks" "0 257 257 ranks"; do
  read -r rank ranks named <<< "$wrong"
  expect 1 env RANK="$rank" WORLD_SIZE="$ranks" MASTER_ADDR=localhost MASTER_PORT=$port "$program"
  grep -q "RANK tells of $named" "$folder/out" || fail "not named: $named"
done
head -c 32 /dev/urandom > "$tools/another"
chmod 600 "$tools/another"
env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port SPARSECOLL_SECRET_FILE="$tools/secret" \
  "$program" hasty 60000 > /dev/null 2>&1 &
first=$!
expect 1 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port SPARSECOLL_SECRET_FILE="$tools/another" "$program"
grep -q 'authentication failed: .*SPARSECOLL_SECRET_FILE has to name the same secret' "$folder/out" || fail "another secret"
kill $first
wait $first || true
expect 1 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port "$program" hasty 200
grep -q 'timeout: .*rank 0 was not reached' "$folder/out" || fail "a rank that finds nobody at a port does not say so"
expect 0 env SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 SLURM_NNODES=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 \
  SLURM_STEP_NODELIST=localhost "$program"  # alone: nobody to meet at the host
expect 0 "$run" -n 2 "$program" hasty -1  # no deadline at all
expect 0 env SPARSECOLL_ISA=none "$run" -n 2 "$program"  # no such instruction set: the best there is
expect 0 env RANK=0 WORLD_SIZE=1 "$program"
expect 0 env RANK=0 WORLD_SIZE= SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_NNODES=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=1 "$program"
grep -q 'rank 0 of 1 by Slurm' "$folder/out" || fail "a launcher's word counts less than a variable that is empty"
for place in RANK=1:WORLD_SIZE= RANK=1:WORLD_SIZE=four RANK=-1:WORLD_SIZE=4 RANK=:WORLD_SIZE=4 RANK=0:WORLD_SIZE=0; do
  expect 1 env "${place%:*}" "${place#*:}" MASTER_ADDR=localhost MASTER_PORT=$port "$program"
  grep -q 'invalid argument: .*\(which is no number of a rank\|tells of 0 ranks\)' "$folder/out" || fail "$place is taken"
done
clean
echo "ranks of Slurm, Open MPI, MPICH, torchrun and Kubeflow meet"

# Ranks on hosts, through a script that does as ssh: HOST LINE.
printf '#!/bin/sh\nshift\ncd / && exec sh -c "$*"\n' > "$tools/rsh"
chmod +x "$tools/rsh"
hosts=(--hosts localhost,127.0.0.1:2 --launcher "$tools/rsh" --port $port)
expect 0 "$run" "${hosts[@]}" --prefix "$program"
[ "$(grep -c '^\[[012]\] rank [012] of 3 by sparsecoll-run: success$' "$folder/out")" = 3 ] || fail "hosts did not meet"
printf '# two hosts\nlocalhost\nuser@127.0.0.1 slots=2\n' > "$tools/hosts"
export NAMED="two  words" SPARSECOLL_SEEN="it's"
expect 0 "$run" -n 2 --hostfile "$tools/hosts" --launcher "$tools/rsh" -x NAMED -x GIVEN=1 --port 7 \
  bash -c '[ "$SPARSECOLL_SEEN" = "it'"'"'s" ] && echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $NAMED $GIVEN $PWD"'
unset NAMED SPARSECOLL_SEEN
diff <(sort "$folder/out") - << END || fail "the variables"
0 2 0 1 localhost 7 two  words 1 $PWD
1 2 0 1 localhost 7 two  words 1 $PWD
END
expect 9 "$run" "${hosts[@]}" --grace 20 bash -c '[ "$RANK" = 1 ] && exit 9; sleep 1'
grep -q 'rank 1 ended with status 9' "$folder/out" || fail "the failed rank is not named"
expect 137 "$run" "${hosts[@]}" --grace 20 bash -c '[ "$RANK" = 1 ] && kill -9 $$; sleep 1'
expect 1 "$run" "${hosts[@]}" --grace 0 bash -c 'echo $$ >> "$TMPDIR/ranks"; [ "$RANK" = 1 ] && exit 1; sleep 300'
while read -r rank; do ! kill -0 "$rank" 2> /dev/null || fail "rank $rank outlives its job"; done < "$folder/ranks"
rm "$folder/ranks"
timeout 120 "$run" "${hosts[@]}" "$program" wait > "$folder/out" 2>&1 &
job=$!
for _ in $(seq 600); do [ "$(grep -c waits "$folder/out")" = 3 ] && break; sleep 0.1; done
kill -USR1 "$(pgrep -P $job -x sparsecoll-run || echo $job)"
status=0
wait $job || status=$?
[ "$status" = $((40 + 10)) ] || fail "after SIGUSR1: status $status"
expect 3 "$run" --hosts localhost -n 2 "$program"
grep -q 'slots' "$folder/out" || fail "too many ranks for the hosts"
expect 127 "$run" --hosts localhost --launcher "$tools/none" true
clean
echo "ranks on hosts meet, fail and end as on one"
echo "ranks of Slurm, Open MPI, MPICH and torchrun meet"

# Ranks that do not find each other say why. Open MPI's variables, so that nobody ends the others.
# alone RANK PATTERN: this rank comes alone and ends with the pattern in its words.
alone() {
  expect 1 env OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=alone \
    SPARSECOLL_LAUNCH_DIR="${where:-$folder}" "$program" hasty 200
  grep -qE "^rank $1: .*$2" "$folder/out" || fail "rank $1 alone does not say '$2'"
}
id=$folder/sparsecoll-$(id -u)-alone-0

# A rank that has read what a killed rank 0 left behind follows the next rank 0.
again=(env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=alone SPARSECOLL_LAUNCH_DIR="$folder")
"${again[@]}" OMPI_COMM_WORLD_RANK=0 "$program" hasty 60000 > /dev/null 2>&1 &
first=$!
until [ -e "$id" ]; do sleep 0.05; done
kill -9 $first
wait $first || true
"${again[@]}" OMPI_COMM_WORLD_RANK=1 "$program" hasty 60000 > /dev/null 2>&1 &
other=$!
sleep 1  # for the other rank to read it
[ -e "$id" ] || fail "somebody has removed the id of the killed rank"
expect 0 timeout 30 "${again[@]}" OMPI_COMM_WORLD_RANK=0 "$program"
wait $other || fail "a rank believes the id of a killed rank 0"
clean
alone 0 'timeout: .*1 did not come|timeout: .*missing.*1|timeout: .*rank.* 1'
alone 1 "timeout: .*rank 0 has left no id to meet by: $id: No such file"
where=$folder/nowhere alone 0 "system error: .*the file by which ranks meet cannot be made: $folder/nowhere/.*No such file"
printf 'garbage' > "$id"
chmod 600 "$id"
alone 1 "timeout: .*$id holds no id: 7 bytes of 128"
head -c 128 /dev/zero > "$id"
alone 1 'invalid argument: .'
chmod 644 "$id"
alone 1 "system error: .*$id is not a file that this user alone can read"
rm "$id"
ln -s /dev/zero "$id"
alone 1 "system error: .*rank 0 has left no id to meet by: $id: Too many"
rm "$id"
clean
echo "who finds nobody says why"

# Ranks on several hosts, as far as they are told, learn from their launcher where rank 0 is, and a key: no variables, no
# warning. They meet twice.
# asked LAUNCHER SERVICE COMMAND...
asked() {
  local by=$1 service=$2
  shift 2
  expect 0 env TMPDIR="$tools" SPARSECOLL_LOG=info "$@" "$program" again
  [ "$(grep -c "learn by $service that rank 0 is at" "$folder/out")" = 1 ] || fail "rank 0 has not told by $service"
  [ "$(grep -c "of 4 by $by: success" "$folder/out")" = 4 ] || fail "ranks of $by did not meet"
  ! grep -q 'SPARSECOLL_SECRET_FILE' "$folder/out" || fail "rank 0 misses a secret beside its launcher's key"
  echo "4 ranks of $by met by their launcher's word"
}
# tardy LAUNCHER WORDS COMMAND...: rank 3 comes when the others have given up once. They say what they waited for, and
# meet with it the second time.
tardy() {
  local by=$1 words=$2
  shift 2
  expect 0 env TMPDIR="$tools" "$@" bash -c 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 3 ]; then
    until [ "$(grep -c "at first: timeout" "$1")" = 3 ]; do sleep 0.1; done
  fi; exec "$0" retry 2000' "$program" "$folder/out"
  [ "$(grep -c "at first: timeout: .*$words in time: not all ranks of the job have come" "$folder/out")" = 3 ] ||
    fail "nobody says what the ranks of $by waited for"
  [ "$(grep -c "of 4 by $by: success" "$folder/out")" = 4 ] || fail "ranks of $by did not meet in the end"
}
if command -v mpirun.openmpi > /dev/null && ldconfig -p | grep -F libpmix.so.2 > /dev/null; then
  # What libpmix leaks is not asked.
  openmpi=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe -n 4
    env OMPI_COMM_WORLD_LOCAL_SIZE=1 ASAN_OPTIONS=detect_leaks=0)
  asked "Open MPI" PMIx "${openmpi[@]}"
  expect 0 env TMPDIR="$tools" "${openmpi[@]}" bash -c '"$0" && exec "$0"' "$program"
  [ "$(grep -c 'of 4 by Open MPI: success' "$folder/out")" = 8 ] || fail "a second program's ranks did not meet"
  tardy "Open MPI" "PMIx_Fence has not ended" "${openmpi[@]}"
else
  echo "skipped: no mpirun.openmpi with libpmix.so.2 here"
fi
if command -v mpiexec.mpich > /dev/null; then
  mpich=(mpiexec.mpich -n 4 env MPI_LOCALNRANKS=1)
  asked MPICH PMI "${mpich[@]}"
  expect 0 "${mpich[@]}" bash -c '"$0" && ! "$0"' "$program"
  [ "$(grep -c 'unsupported: .*no place to meet: .*ended by an earlier program' "$folder/out")" = 4 ] ||
    fail "a second program's ranks do not say why they cannot meet"
  tardy MPICH "the launcher's PMI has not answered barrier_in" "${mpich[@]}"
  asked MPICH PMI env SPARSECOLL_PORT=$port SPARSECOLL_SECRET_FILE="$tools/secret" "${mpich[@]}"
  grep -q "rank 0 is at .* port $port\$" "$folder/out" || fail "rank 0 is not at the port that was named"
else
  echo "skipped: no mpiexec.mpich here"
fi

# The same with a PMIx that does not work. Who has no other place to meet says what it is about PMIx.
export FAKE_PMIX_FOLDER=$tools/pmix FAKE_PMIX_SIZE=3 PMIX_NAMESPACE=fake SPARSECOLL_PMIX_LIBRARY=$pmix
apart=(OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0)
fresh() { rm -rf "$FAKE_PMIX_FOLDER"; mkdir "$FAKE_PMIX_FOLDER"; : > "$folder/out"; }
for master in 29500 65535; do  # the ports behind it, if there are any
  fresh
  play OMPI_COMM_WORLD_RANK=% PMIX_RANK=% "${apart[@]}" MASTER_PORT=$master
  [ "$(grep -c 'of 3 by Open MPI: success' "$folder/out")" = 3 ] || fail "ranks did not meet by PMIx"
done
# broken VARIABLE=VALUE PATTERN [RANK]
broken() {
  FAKE_PMIX_SIZE=1 expect 1 env OMPI_COMM_WORLD_RANK="${3:-0}" PMIX_RANK="${3:-0}" "${apart[@]}" "$1" "$program" hasty 200
  grep -qE "^rank ${3:-0}: .*$2" "$folder/out" || fail "$1: nobody says '$2'"
}
for call in Init Put Commit Fence Finalize; do
  [ $call = Init ] || broken FAKE_PMIX_FAILS=$call "system error: .*PMIx_$call: the test's error \(-1\)"
  broken FAKE_PMIX_STUCK=$call "timeout: .*PMIx_$call has not ended in time"
done
broken FAKE_PMIX_FAILS=Init "unsupported: .*no place to meet: PMIx_Init: the test's error \(-1\); set MASTER_ADDR"
broken FAKE_PMIX_FAILS=Get "system error: .*PMIx_Get: the test's error \(-1\)" 1
broken FAKE_PMIX_STUCK=Get "timeout: .*PMIx_Get has not ended in time" 1
broken FAKE_PMIX_RANK=7 "system error: .*the launcher says rank 0, its PMIx 7"
for word in none null nothing; do
  broken FAKE_PMIX_WORD=$word "system error: .*PMIx_Get brings no text of rank 0's" 1
done
FAKE_PMIX_MUTE=1 broken FAKE_PMIX_FAILS=Put "system error: .*PMIx_Put: no word of why \(-1\)"
broken FAKE_PMIX_WORD=word "corrupted data: .*the launcher hands on no place of rank 0's" 1
broken SPARSECOLL_PMIX_LIBRARY="$tools/none" "unsupported: .*no place to meet: PMIx was not found: .*set MASTER_ADDR"
broken SPARSECOLL_PMIX_LIBRARY="$stuck" "unsupported: .*no place to meet: .* has no PMIx_Init"
# Beside an MPI that may still need its PMIx each rank leaves it open until it ends.
fresh
play OMPI_COMM_WORLD_RANK=% PMIX_RANK=% "${apart[@]}" LD_PRELOAD="$mpi" FAKE_MPI=loaded \
  ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
[ "$(grep -c 'of 3 by Open MPI: success' "$folder/out")" = 3 ] || fail "ranks did not meet beside an MPI"
[ "$(sort "$FAKE_PMIX_FOLDER/finalized" | tr -d '\n')" = 012 ] || fail "PMIx was not closed by each rank once"
# A secret counts beside the launcher's key.
fresh
head -c 32 /dev/urandom > "$tools/other"
chmod 600 "$tools/other"
secretive() {
  FAKE_PMIX_SIZE=2 env OMPI_COMM_WORLD_RANK="$1" PMIX_RANK="$1" "${apart[@]}" OMPI_COMM_WORLD_SIZE=2 \
    SPARSECOLL_SECRET_FILE="$tools/$2" "$program" hasty 1000 >> "$folder/out" 2>&1
}
secretive 0 secret & first=$!
! secretive 1 other || fail "a rank with another secret is let in"
! wait $first || fail "rank 0 met a rank with another secret"
grep -q '^rank 1: .*SPARSECOLL_SECRET_FILE has to name the same secret' "$folder/out" || fail "the secret is not named"
# A rank that comes late is named by what it holds up; when it is there, all meet.
fresh
late() { env OMPI_COMM_WORLD_RANK="$1" PMIX_RANK="$1" "${apart[@]}" "$program" retry 300 >> "$folder/out" 2>&1; }
late 0 & first=$!
late 1 & second=$!
for _ in $(seq 600); do [ "$(grep -c 'at first' "$folder/out")" = 2 ] && break; sleep 0.1; done
[ "$(grep -c 'timeout: .*PMIx_Fence has not ended in time: not all ranks' "$folder/out")" = 2 ] || fail "who is late?"
late 2 || fail "the late rank ended with $?"
wait $first && wait $second || fail "the ranks that waited did not meet"
[ "$(grep -c 'of 3 by Open MPI: success' "$folder/out")" = 3 ] || fail "ranks did not meet in the end"
# Slurm's ranks, too, where its PMIx works; where it does not, they meet at a port.
slurm=(SLURM_NTASKS=3 SLURM_LOCALID=0 SLURM_NNODES=3 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost)
for library in "$pmix" "$tools/none"; do
  fresh
  play SLURM_PROCID=% PMIX_RANK=% "${slurm[@]}" SPARSECOLL_PMIX_LIBRARY="$library" SPARSECOLL_LOG=info
  [ "$(grep -c 'of 3 by Slurm: success' "$folder/out")" = 3 ] || fail "Slurm's ranks did not meet"
  [ "$(grep -c 'PMIx was not found' "$folder/out")" = $(($([ "$library" = "$pmix" ]; echo $?) * 3)) ] || fail "PMIx of $library"
done
# What a job has inherited from another is none of its own.
fresh
play SLURM_PROCID=% PMIX_RANK=9 "${slurm[@]}"
[ "$(grep -c 'of 3 by Slurm: success' "$folder/out")" = 3 ] || fail "Slurm's ranks did not meet beside another PMIx"
[ ! -e "$FAKE_PMIX_FOLDER/sparsecoll" ] || fail "another job's PMIx was used"
unset FAKE_PMIX_FOLDER FAKE_PMIX_SIZE PMIX_NAMESPACE SPARSECOLL_PMIX_LIBRARY
clean
echo "a PMIx that fails, hangs or lies is named"
expect 0 env SPARSECOLL_INTERFACE=lo "$run" -n 2 "$program"
expect 1 env SPARSECOLL_INTERFACE=none0 "$run" -n 2 --grace 20 "$program"
grep -q 'invalid argument: .*no interface none0' "$folder/out" || fail "an interface that is not there is not named"
clean
echo "ranks meet at the interface that is named"

# Where there is no UCX, or a file that is none, ranks that name no engine meet over TCP.
for none in "$tools/none" libm.so.6; do
  expect 0 env SPARSECOLL_UCX_LIBRARY="$none" "$run" -n 2 --grace 60 "$program"
  [ "$(grep -c 'of 2 by sparsecoll-run: success' "$folder/out")" = 2 ] || fail "ranks without UCX did not meet"
done
clean
echo "ranks without UCX meet"

# A UCX that never opens a worker, as 1.13 does where no port is left, does not keep a rank past initTimeoutMs.
expect 1 env SPARSECOLL_UCX_LIBRARY="$stuck" "$run" -n 2 --grace 60 "$program" hasty 300
grep -q 'timeout: .*UCX has not opened a worker in time' "$folder/out" || fail "nobody names UCX"
clean
echo "a UCX that is stuck is left behind"
