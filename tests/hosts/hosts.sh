#!/usr/bin/env bash
# Ranks on hosts that are namespaces of this machine (network.sh).
# usage: hosts.sh BIN WHAT      BIN: the folder of the programs; WHAT is one of
#   test-links   the links carry what they should, with rates, delays and losses
#   test-mpi     the presets over MPI between two hosts, and that what they say they send is what their cards sent
#   test-nodes   the same of presets over nodes, on two hosts of two ranks
#   test-tcp     some presets over the library's own TCP engine between two hosts, with the sums of ranks on threads
#   test-perf    sparsecoll-perf on four hosts that share no folder, as torchrun, srun and sparsecoll-run start it
#   test-launchers  ranks that mpirun and mpiexec start on two hosts meet: their launcher tells where, and a key
#   table        dense against sparse on COUNT (4) hosts with links of RATE (1gbit), DENSITIES (0.1,0.01,0.001), PRESETS
#                (all), ELEMENTS (14728266), STEPS (5) of each, over MPI; the same over ENGINES (tcp,ucx) at 0.01, in TURNS
#                (2; 6 tell engines apart that differ by a few percent); and what the links allow here; ends with 1 where
#                this machine cannot fill such links. With NODES=2x2 (hosts x ranks of each, which share memory, over MPI)
#                instead topka and dense, flat and between the hosts, at DENSITIES (0.01). RATE may be a list
#   crossing     CSV for scripts/plot: dense against PRESETS (topka,micro,spardl) at DENSITY (0.01) over links of RATES
#                (100mbit ... none, with commas), of ELEMENTS (1000000,16000000), STEPS (5) of each over ENGINE (tcp)
#   grid         CSV of cells: ELEMENTS (65536,1000000,16000000) x DENSITIES (0.1,0.01,0.001) x COUNTS of ranks (2,4) x RATES
#                (100mbit,1gbit,5gbit,none; none: ranks of one host, which share memory), over TCP. In each, PRESETS (all,
#                with topka among them), dense and auto step in turn for BUDGET (10) seconds behind auto's trials, those
#                whose density counts all ranks with P times as much; one line says which was the fastest that delivers as
#                many entries as topka (but 10 %), and the largest: not any, or a chunk's, which are fewer bytes to send.
#                The others have a !. And how auto compares; the last line judges it
#   test-cards   ranks meet past cards that lead to no other host, and past a name that leads to loopback
#   test-leaving over a slow link a rank that goes is no loss to the one that what it sent has not reached yet
#   test-grid    two cells of it, and links that no machine fills
#   test-refusal a table of links that no machine fills is refused
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$1" && pwd)
what=$2
shift 2
network=$here/network.sh
fail() { echo "FAIL: $*" >&2; exit 1; }
# between OPTIONS... -- WHAT ARGUMENTS...: this script again, between hosts that the options make.
between() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  "$network" "${options[@]}" --switch "$bin/hosts_switch" -- "${BASH_SOURCE[0]}" "$bin" "$@"
}

# ring ELEMENTS REPEATS: an all-reduce of plain TCP between all hosts, its median in milliseconds.
ring() {
  local rank=0 host processes=() process status=0
  for host in $HOSTS; do
    on "$host" "$bin/hosts_ring" $rank $HOSTS_ADDRESSES "$1" "$2" > "$HOSTS_DIR/ring$rank" &
    processes+=($!)
    rank=$((rank + 1))
  done
  for process in "${processes[@]}"; do wait "$process" || status=1; done
  grep -q ' 0 wrong' "$HOSTS_DIR/ring0" || fail "the ring: $(cat "$HOSTS_DIR/ring0")"
  [ $status = 0 ] || fail "a rank of the ring"
  sed -E 's/ ms median.*//' "$HOSTS_DIR/ring0"
}

# ideal RATE ELEMENTS: hundredths of a millisecond that the bytes of a ring all-reduce take on such links; none: 0.
ideal() {
  local count
  count=$(wc -w <<< "$HOSTS")
  case $1 in
    *gbit) echo $((64 * (count - 1) * $2 / count / ${1%gbit} / 10000)) ;;
    *mbit) echo $((64 * (count - 1) * $2 / count / ${1%mbit} / 10)) ;;
    none) echo 0 ;;
    *) fail "rates are written as 100mbit, 1gbit or none, not $1" ;;
  esac
}
# fills RING IDEAL: the plain ring, in milliseconds, took no more than twice the time that its links ask for.
fills() { [ $((${1%.*} * 100)) -le $((2 * $2)) ]; }
# carried ELEMENTS RING: what a link carried of the ring's bytes, in Mbit/s.
carried() { awk -v n="$1" -v ms="$2" -v p="$(wc -w <<< "$HOSTS")" 'BEGIN { printf "%.0f", 64 * (p - 1) / p * n / ms / 1000 }'; }

# mpi COMMAND...: RANKS_A_HOST (1) on every host. Where it is one, it does not take the cores away from the kernel while
# it waits. Ranks of a host share memory: there MPI would yield at every look at a message, and each message wait for
# all that runs on this machine.
mpi() {
  local each=${RANKS_A_HOST:-1} hosts
  hosts=$(wc -w <<< "$HOSTS")
  printf "%s slots=$each\n" $HOSTS > "$HOSTS_DIR/hostfile"
  on "${HOSTS%% *}" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun.openmpi --hostfile "$HOSTS_DIR/hostfile" -n $((hosts * each)) --bind-to none \
    --mca plm_rsh_agent "$HOSTS_DIR/on" --mca btl tcp,vader,self --mca pml ob1 --mca btl_tcp_if_include eth0 \
    --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle $((each == 1)) ${MPI_OPTIONS:-} "$@"
}

# each FOLDER COMMAND...: a rank on every host, which meet in the folder; rank R writes FOLDER/outR. The status is one's.
each() {
  local folder=$1 rank=0 host processes=() process status=0
  shift
  for host in $HOSTS; do
    on "$host" env RANK=$rank WORLD_SIZE="$(wc -w <<< "$HOSTS")" SPARSECOLL_LAUNCH_DIR="$folder" \
      SPARSECOLL_INTERFACE=eth0 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 UCX_LOG_LEVEL=fatal \
      "$@" > "$folder/out$rank" 2>&1 &
    processes+=($!)
    rank=$((rank + 1))
  done
  for process in "${processes[@]}"; do wait "$process" || status=$?; done
  return $status
}

# perf ENGINE OPTIONS...: sparsecoll-perf with a rank on every host; what it prints.
perf() {
  local engine=$1 folder
  shift
  folder=$(mktemp -d "$HOSTS_DIR/perf.XXXXXX")
  each "$folder" "$bin/sparsecoll-perf" --transport "$engine" "$@" || fail "$engine between hosts: $(cat "$folder"/out*)"
  cat "$folder/out0"
}

# in_turn COUNT OPTIONS...: sparsecoll-perf over TCP, on the hosts that there are, or else on COUNT ranks of this one.
in_turn() {
  local count=$1
  shift
  if [ -n "${HOSTS:-}" ]; then
    perf tcp "$@"
  else
    "$bin/sparsecoll-run" -n "$count" "$bin/sparsecoll-perf" --transport tcp "$@"
  fi
}

case $what in
  test-links)
    between --hosts 2 --rate none -- inside-links
    between --hosts 3 --rate 100mbit -- inside-links 38
    between --hosts 2 --rate 100mbit --delay 1000 --loss 0.001 -- inside-links 28
    ;;
  inside-links)  # [LEAST MILLISECONDS]: 1 MB at 100 Mbit/s takes 80 ms
    took=$(ring 100000 3)
    echo "$HOSTS: $took ms"
    [ "${took%.*}" -ge "${1:-0}" ] || fail "$took ms is faster than the link"
    ;;
  test-mpi) between --hosts 2 --rate 1gbit -- inside-mpi ;;
  inside-mpi)
    command -v mpirun.openmpi > /dev/null || { echo "skipped: no mpirun.openmpi here"; exit 77; }
    mpi "$bin/hosts_steps" 200000 0.01 topka,micro,oktopk 2
    ;;
  test-tcp) between --hosts 2 --rate 1gbit -- inside-tcp ;;
  inside-tcp)
    options="--elements 20000 --preset dense,topka,micro --density 0.01 -n 2 --warmup 1"
    perf tcp $options --json "$HOSTS_DIR/hosts.json"
    "$bin/sparsecoll-perf" --ranks threads:2 $options --json "$HOSTS_DIR/threads.json" > /dev/null
    hashes() { grep -E '"(preset|sum_hash|wrong)"' "$1"; }
    diff -u <(hashes "$HOSTS_DIR/threads.json") <(hashes "$HOSTS_DIR/hosts.json") || fail "other sums than on threads"
    ;;
  test-leaving) between --hosts 2 --rate 4mbit -- inside-leaving ;;
  inside-leaving)  # 1 MB takes two seconds, and rank 0 has nothing to wait for
    for engine in tcp ucx; do
      [ $engine = tcp ] && other=ucx || other=tcp
      folder=$(mktemp -d "$HOSTS_DIR/leaving.XXXXXX") status=0
      each "$folder" env SPARSECOLL_DISABLE_ENGINES=$other,nccl "$bin/hosts_leaving" 125000 || status=$?
      if [ $status = 77 ] && [ $engine = ucx ]; then echo "skipped: no $engine here"; continue; fi
      [ $status = 0 ] || fail "over $engine: $(cat "$folder"/out*)"
      echo "over $engine: $(cat "$folder/out1")"
    done
    ;;
  test-perf) between --hosts 4 --rate none -- inside-perf ;;
  inside-perf)
    mkdir "$HOSTS_DIR/empty"
    cd "$HOSTS_DIR/empty"
    perf=("$bin/sparsecoll-perf" --elements 20000 --density 0.01 --preset dense,topka,spardl --against dense -n 3 -w 1
      --json "$HOSTS_DIR/perf.json" --csv "$HOSTS_DIR/perf.csv")
    # judge WHO: what rank 0 has printed and written.
    judge() {
      grep -q '^# ranks on host1 (1), host2 (1), host3 (1), host4 (1); engine [a-z]* (.*); interface eth0 10.77.0.1; commit ' \
        "$HOSTS_DIR/out" || fail "$1: no line of hosts: $(cat "$HOSTS_DIR/out")"
      [ "$(grep -c '"wrong": 0' "$HOSTS_DIR/perf.json")" = 3 ] || fail "$1: $(cat "$HOSTS_DIR/out")"
      [ "$(wc -l < "$HOSTS_DIR/perf.csv")" = 4 ] || fail "$1: $(cat "$HOSTS_DIR/perf.csv")"
      rm "$HOSTS_DIR/perf.json" "$HOSTS_DIR/perf.csv"
      echo "$1: four hosts, three rows, nothing wrong"
    }
    # start NAME=VALUE...: a rank on every host; % is its number.
    start() {
      local rank=0 host processes=() process status=0
      for host in $HOSTS; do
        on "$host" env "${@//%/$rank}" "${perf[@]}" > "$HOSTS_DIR/out$rank" 2>&1 &
        processes+=($!)
        rank=$((rank + 1))
      done
      for process in "${processes[@]}"; do wait "$process" || status=$?; done
      cat "$HOSTS_DIR"/out? > "$HOSTS_DIR/out"
      [ $status = 0 ] || fail "$1 ended with $status: $(cat "$HOSTS_DIR/out")"
    }
    start RANK=% WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=host1 MASTER_PORT=29500 \
      TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0
    judge torchrun
    start SLURM_PROCID=% SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NNODES=4 SLURM_JOB_ID=123456789 SLURM_STEP_ID=0 \
      "SLURM_STEP_NODELIST='host[1-4]'"
    judge srun
    "$bin/sparsecoll-run" --hosts "${HOSTS// /,}" --launcher on "${perf[@]}" > "$HOSTS_DIR/out" 2>&1 ||
      fail "sparsecoll-run: $(cat "$HOSTS_DIR/out")"
    judge sparsecoll-run
    [ -z "$(ls -A)" ] || fail "left behind: $(ls -A)"
    ;;
  test-launchers) RANKS_A_HOST=2 between --hosts 2 --rate none -- inside-launchers ;;
  inside-launchers)
    # met LAUNCHER SERVICE COMMAND...: four ranks, twice.
    met() {
      local by=$1 service=$2
      shift 2
      "$@" > "$HOSTS_DIR/out" 2>&1 || fail "$by ended with $?: $(cat "$HOSTS_DIR/out")"
      [ "$(grep -c "of 4 by $by: success" "$HOSTS_DIR/out")" = 4 ] || fail "ranks of $by: $(cat "$HOSTS_DIR/out")"
      grep -q "learn by $service that rank 0 is at 10.77.0.1 port" "$HOSTS_DIR/out" || fail "$by: $(cat "$HOSTS_DIR/out")"
      [ "$(grep -c 'eth0' "$HOSTS_DIR/out")" = 2 ] || fail "$by leads elsewhere: $(cat "$HOSTS_DIR/out")"
      ! grep -q SPARSECOLL_SECRET_FILE "$HOSTS_DIR/out" || fail "$by hands on no key: $(cat "$HOSTS_DIR/out")"
      echo "4 ranks of $by met on two hosts"
    }
    met=0
    if command -v mpirun.openmpi > /dev/null && ldconfig -p | grep -F libpmix.so.2 > /dev/null; then
      met "Open MPI" PMIx mpi env SPARSECOLL_LOG=info UCX_LOG_LEVEL=fatal "$bin/launched" again
      met=1
    else
      echo "skipped: no mpirun.openmpi with libpmix.so.2 here"
    fi
    if command -v mpiexec.mpich > /dev/null; then
      met MPICH PMI on "${HOSTS%% *}" mpiexec.mpich -hosts "${HOSTS// /,}" -ppn 2 -n 4 -launcher rsh \
        -launcher-exec "$HOSTS_DIR/on" env SPARSECOLL_LOG=info UCX_LOG_LEVEL=fatal "$bin/launched" again
      met=1
    else
      echo "skipped: no mpiexec.mpich here"
    fi
    [ $met = 1 ] || exit 77
    ;;
  test-cards) between --hosts 2 --rate none -- inside-cards ;;
  inside-cards)
    # In front of its card each host has a bridge of its own, with the same address on all, as Docker makes it; and as on
    # Debian rank 0's host takes its own name for loopback.
    number=0
    for host in $HOSTS; do
      number=$((number + 1))
      ip link del port$number
      ip -n "$host" link add docker0 type veth peer name nobody
      ip -n "$host" addr add 172.17.0.1/16 dev docker0
      ip -n "$host" link set docker0 up
      ip -n "$host" link set nobody up
      ip link add eth0 netns "$host" type veth peer name port$number
      ip link set port$number master switch up
      ip -n "$host" addr add 10.77.0.$number/24 dev eth0
      ip -n "$host" link set eth0 up
    done
    sed 's/10.77.0.1 host1/127.0.1.1 host1/' /etc/hosts > "$HOSTS_DIR/debian"
    for engine in tcp ucx; do  # which is the first choice
      [ $engine = tcp ] && without=ucx,nccl || without=nccl
      processes=() rank=0 status=0
      for host in host1 host1 host2 host2; do
        names=/etc/hosts
        [ $host = host2 ] || names=$HOSTS_DIR/debian
        on $host unshare --mount sh -c "'mount --bind $names /etc/hosts && exec env RANK=$rank WORLD_SIZE=4 \
          LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=host1 MASTER_PORT=29500 UCX_LOG_LEVEL=fatal \
          SPARSECOLL_LOG=info SPARSECOLL_DISABLE_ENGINES=$without $bin/launched hasty 30000'" > "$HOSTS_DIR/out$rank" 2>&1 &
        processes+=($!)
        rank=$((rank + 1))
      done
      for process in "${processes[@]}"; do wait "$process" || status=$?; done
      [ $status = 0 ] && [ "$(cat "$HOSTS_DIR"/out? | grep -c 'of 4 by RANK: success')" = 4 ] ||
        fail "over $engine: $(cat "$HOSTS_DIR"/out?)"
      grep -q "engine $engine" "$HOSTS_DIR"/out? || { echo "skipped: no $engine here"; continue; }
      echo "over $engine: 4 ranks met past bridges that lead nowhere"
    done
    ;;
  test-nodes) RANKS_A_HOST=2 between --hosts 2 --rate 1gbit -- inside-nodes-test ;;
  inside-nodes-test)
    command -v mpirun.openmpi > /dev/null || { echo "skipped: no mpirun.openmpi here"; exit 77; }
    mpi "$bin/hosts_steps" 200000 0.01 nodes:dense,nodes:topka,nodes:oktopk 2
    ;;
  table)
    for rate in ${RATE:-1gbit}; do
      export RATE=$rate
      if [ -z "${NODES:-}" ]; then
        between --hosts "${COUNT:-4}" --rate "$RATE" -- inside-table
      else
        RANKS_A_HOST=${NODES#*x} between --hosts "${NODES%x*}" --rate "$RATE" -- inside-nodes
      fi
    done
    ;;
  inside-nodes)
    elements=${ELEMENTS:-14728266}
    echo "== $(wc -w <<< "$HOSTS") hosts of $RANKS_A_HOST ranks on $(nproc) cores, links of $RATE, $elements elements," \
      "load $(cut -d' ' -f1 /proc/loadavg), $(date -u +%FT%TZ)"
    echo "card bytes: what a host sent to the others in a step; a flat step cannot tell that of its ranks"
    mpi "$bin/hosts_steps" "$elements" "${DENSITIES:-0.01}" topka,nodes:topka,nodes:dense "${STEPS:-5}"
    echo "load $(cut -d' ' -f1 /proc/loadavg) at the end"
    ;;
  inside-table)
    elements=${ELEMENTS:-14728266}
    count=$(wc -w <<< "$HOSTS")
    echo "== $count hosts on $(nproc) cores, links of $RATE, load $(cut -d' ' -f1 /proc/loadavg), $(date -u +%FT%TZ)"
    ideal=$(ideal "$RATE" "$elements")
    tcp=$(ring "$elements" 5)
    echo "ring all-reduce, ideal: $((ideal / 100)).$((ideal % 100 / 10)) ms; over plain TCP: $tcp ms"
    if ! fills "$tcp" "$ideal"; then
      echo "refused: this machine fills links of $(carried "$elements" "$tcp") Mbit/s now, not of $RATE: times would say how"
      echo "busy its processors are, not what such a network does"
      exit 1
    fi
    # Of MPI's algorithms the one that is best with long vectors.
    MPI_OPTIONS="--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 5
      --mca coll_tuned_allreduce_algorithm_segmentsize 131072" mpi "$bin/hosts_steps" "$elements" "${DENSITIES:-0.1,0.01,0.001}" "${PRESETS:-all}" "${STEPS:-5}"
    # In turns, which go to and fro, so that what else the machine does meets all of them.
    engines=${ENGINES:-tcp,ucx}
    order=${engines//,/ }
    for turn in $(seq "${TURNS:-2}"); do
      for engine in $order; do
        perf "$engine" --elements "$elements" --preset "${PRESETS:-all}" --density 0.01 -n "${STEPS:-5}" --warmup 5 \
          --no-check --csv "$HOSTS_DIR/$engine.$turn.csv" > /dev/null
      done
      order=$(tr ' ' '\n' <<< "$order" | tac | paste -sd ' ')
    done
    python3 - "$HOSTS_DIR" "${TURNS:-2}" ${engines//,/ } << 'PYTHON'
import csv
import math
import statistics
import sys

folder, turns, engines = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
times = {}  # [preset][engine]: milliseconds, the median of each turn's steps
for engine in engines:
    for turn in range(1, turns + 1):
        for row in csv.DictReader(open(f"{folder}/{engine}.{turn}.csv")):
            times.setdefault(row["preset"], {}).setdefault(engine, []).append(float(row["total_us"]) / 1e3)
print(f"== density 0.01, medians of {turns} turns, and of their ratios")
print(f"{'preset':<14}" + "".join(f"{engine + ' ms':>12}" for engine in engines) + "   over the last")
ratios = []
for preset, of in times.items():
    ratios.append(statistics.median(first / last for first, last in zip(of[engines[0]], of[engines[-1]])))
    print(f"{preset:<14}" + "".join(f"{statistics.median(of[engine]):>12.2f}" for engine in engines) + f"{ratios[-1]:>16.3f}")
print(f"{engines[0]} takes {math.exp(statistics.fmean(map(math.log, ratios))):.3f} of {engines[-1]} (geometric mean)")
PYTHON
    ;;
  test-refusal)
    status=0
    said=$(RATE=1000gbit ELEMENTS=1000000 "${BASH_SOURCE[0]}" "$bin" table) || status=$?
    [ $status != 77 ] || { echo "$said"; exit 77; }
    [ $status = 1 ] || fail "links of 1000gbit: ended with $status: $said"
    grep -Eq '^refused: this machine fills links of [1-9][0-9]* Mbit/s now, not of 1000gbit' <<< "$said" || fail "$said"
    ! grep -q 'x dense' <<< "$said" || fail "judged all the same: $said"
    ;;
  crossing)
    echo "# $(date -u +%FT%TZ), commit $(git -C "$here" describe --always --dirty 2> /dev/null || echo unknown)," \
      "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
    echo "rate,mbit,filled,hosts,n,preset,density,ms,best_ms,sent_bytes,ring_ms,load"
    elements=${ELEMENTS:-1000000,16000000} rates=${RATES:-100mbit,200mbit,500mbit,1gbit,2gbit,5gbit,none}
    for n in ${elements//,/ }; do
      for rate in ${rates//,/ }; do between --hosts "${COUNT:-4}" --rate "$rate" -- inside-crossing "$rate" "$n"; done
    done
    ;;
  inside-crossing)  # RATE ELEMENTS
    ring=$(ring "$2" 3)
    carried=$(carried "$2" "$ring")
    filled=yes mbit=$carried
    case $1 in
      none) ;;
      *gbit) mbit=$((${1%gbit} * 1000)) ;;
      *mbit) mbit=${1%mbit} ;;
    esac
    [ "$1" = none ] || fills "$ring" "$(ideal "$1" "$2")" || filled=no
    load=$(cut -d' ' -f1 /proc/loadavg)
    perf "${ENGINE:-tcp}" --elements "$2" --preset "dense,${PRESETS:-topka,micro,spardl}" --density "${DENSITY:-0.01}" \
      -n "${STEPS:-5}" --warmup 2 --no-check --csv "$HOSTS_DIR/rows.csv" > /dev/null
    python3 - "$HOSTS_DIR/rows.csv" "$1,$mbit,$filled,$(wc -w <<< "$HOSTS")" "$ring,$load" << 'PYTHON'
import csv
import sys

for row in csv.DictReader(open(sys.argv[1])):
    ms = [f"{float(row[name]) / 1e3:.2f}" for name in ("total_us", "best_us")]
    print(sys.argv[2], row["n"], row["preset"], row["density"], *ms, row["sent_bytes"], sys.argv[3], sep=",", flush=True)
PYTHON
    ;;
  grid)
    cells=$(mktemp)
    trap 'rm -f "$cells"' EXIT
    counts=${COUNTS:-2,4} rates=${RATES:-100mbit,1gbit,5gbit,none}
    echo "# $(date -u +%FT%TZ), commit $(git -C "$here" describe --always --dirty 2> /dev/null || echo unknown)," \
      "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
    echo "rate,ranks,n,density,best,best_ms,dense_ms,auto,auto_ms,auto_over_best,auto_over_dense,rounds,ring_ms,load,all_ms"
    for count in ${counts//,/ }; do
      for rate in ${rates//,/ }; do
        if [ "$rate" = none ]; then
          "${BASH_SOURCE[0]}" "$bin" inside-grid "$rate" "$count"
        else
          between --hosts "$count" --rate "$rate" -- inside-grid "$rate" "$count"
        fi | tee -a "$cells"
      done
    done
    python3 - "$cells" << 'PYTHON'
import sys

lines = open(sys.argv[1]).read().splitlines()
cells = [line.split(",") for line in lines if not line.startswith("#")]
against_best, against_dense = ([float(cell[at]) for cell in cells] for at in (9, 10))
refused, failed = (sum(line.startswith(f"# {what}") for line in lines) for what in ("refused", "failed"))
worst = max(cells, key=lambda cell: float(cell[9]), default=None)
print(f"# auto takes at most 1.10 of the best in {sum(x <= 1.1 for x in against_best)} of {len(cells)} cells, more than 1.05"
      f" of dense in {sum(x > 1.05 for x in against_dense)}"
      + (f"; at worst {worst[9]} of the best, {max(against_dense)} of dense" if worst else "")
      + f"; {refused} links refused, {failed} cells failed")
sys.exit(1 if failed or not cells else 0)
PYTHON
    ;;
  inside-grid)  # RATE COUNT
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    ring= rest=0
    if [ "$1" != none ]; then
      rest=4  # until the buckets are full again, of which short steps take a good part
      ring=$(ring 4000000 3)
      if ! fills "$ring" "$(ideal "$1" 4000000)"; then
        echo "# refused: this machine fills links of $(carried 4000000 "$ring") Mbit/s between $2 hosts now, not of $1"
        exit
      fi
    fi
    elements=${ELEMENTS:-65536,1000000,16000000} densities=${DENSITIES:-0.1,0.01,0.001}
    for n in ${elements//,/ }; do
      for density in ${densities//,/ }; do
        load=$(cut -d' ' -f1 /proc/loadavg)
        if ! (in_turn "$2" --elements "$n" --density "$density" --preset "${PRESETS:-all},auto" --against dense --no-check \
          --in-turn "${BUDGET:-10}" --rest $rest --as-topka -n 101 --warmup 2 --csv "$folder/rows.csv") > "$folder/said" 2>&1; then
          echo "# failed: $1, $2 ranks, n $n, density $density: $(tail -n 3 "$folder/said" | tr '\n' ' ')"
          continue
        fi
        python3 - "$folder/rows.csv" "$1,$2,$n,$density" "$ring,$load" << 'PYTHON'
import csv
import re
import sys

rows = {row["preset"]: row for row in csv.DictReader(open(sys.argv[1]))}
ms = {preset: float(row["total_us"]) / 1e3 for preset, row in rows.items()}
others = {"randomk", "chunk-topk"}
enough = {preset for preset, row in rows.items() if int(row["union"]) >= 0.9 * int(rows["topka"]["union"])} - others
best = min(enough - {"auto"}, key=ms.get)
chosen = re.search(r": ([\w-]+),", rows["auto"]["reason"]).group(1)
shown = (f"{preset}:{ms[preset]:.3f}{'' if preset in enough else '!'}" for preset in sorted(ms, key=ms.get))
print(sys.argv[2], best, f"{ms[best]:.3f}", f"{ms['dense']:.3f}", chosen, f"{ms['auto']:.3f}", f"{ms['auto'] / ms[best]:.3f}",
      f"{ms['auto'] / ms['dense']:.3f}", rows["auto"]["timed_steps"], sys.argv[3], " ".join(shown), sep=",", flush=True)
PYTHON
      done
    done
    ;;
  test-grid)
    status=0
    said=$(COUNTS=2 RATES=none,100mbit,1000gbit ELEMENTS=20000 DENSITIES=0.01 PRESETS=topka,spardl,micro BUDGET=0.1 \
      "${BASH_SOURCE[0]}" "$bin" grid) || status=$?
    [ $status != 77 ] || { echo "$said"; exit 77; }
    [ $status = 0 ] || fail "ended with $status: $said"
    cell=',2,20000,0.01,(dense|topka|spardl|micro)(,[0-9]+\.[0-9]{3}){2},(dense|topka|sparcml-split|spardl)(,[0-9]+\.[0-9]{3}){3},'
    for rate in none 100mbit; do
      [ "$(grep -cE "^$rate$cell([3-9]|[1-9][0-9]|10[01]),[0-9.]*,[0-9.]+,.*dense:.*\$" <<< "$said")" = 1 ] || fail "$rate: $said"
    done
    ! grep -q '[0-9]!' <<< "$said" || fail "with P times its density a method delivers less than topka: $said"
    grep -q '^# refused: this machine fills links of .* not of 1000gbit' <<< "$said" || fail "$said"
    tail -n 1 <<< "$said" | grep -Eq '^# auto takes .* in [0-2] of 2 cells, .*; 1 links refused, 0 cells failed$' || fail "$said"
    ;;
  *) echo "hosts.sh: $what: no such thing" >&2; exit 2 ;;
esac
