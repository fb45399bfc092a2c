#!/usr/bin/env bash
# DistributedDataParallel's own all-reduce beside sparse hooks, between hosts that are namespaces of this machine: CSV.
# usage: hosts.sh LIBRARY     with COUNTS (2 4) of hosts, RATES (100mbit 1gbit) of their links, OPTIONS of mlp.py, and
#                             PYTHON (/usr/bin/python3)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
export PYTHON=${PYTHON:-/usr/bin/python3}
load() { cut -d' ' -f1 /proc/loadavg; }
if [ "${1:-}" != inside ]; then
  library=$(realpath "${1:?the file of the library}")
  commit=$(git -C "$root" describe --always --dirty 2> /dev/null || echo unknown)
  echo "# $(date -u +%F), commit $commit, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores," \
    "torch $("$PYTHON" -c 'import torch; print(torch.__version__)'), load of the machine $(load) at the beginning"
  head=--head
  for rate in ${RATES:-100mbit 1gbit}; do
    for count in ${COUNTS:-2 4}; do
      "$root/tests/hosts/network.sh" --hosts "$count" --rate "$rate" -- "$0" inside "$library" "$rate" $head
      head=
    done
  done
  echo "# load of the machine $(load) at the end"
  exit
fi
library=$2 rate=$3 head=${4:-}
rank=0 processes=() status=0
for host in $HOSTS; do
  on "$host" env RANK=$rank WORLD_SIZE="$(wc -w <<< "$HOSTS")" MASTER_ADDR="${HOSTS_ADDRESSES%% *}" MASTER_PORT=29500 \
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/python" \
    SPARSECOLL_LIBRARY="$library" UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 \
    "$PYTHON" "$here/mlp.py" --card eth0 --label "$rate" $head ${OPTIONS:-} \
    > "$HOSTS_DIR/out$rank" 2> "$HOSTS_DIR/errors$rank" &
  processes+=($!)
  rank=$((rank + 1))
done
for process in "${processes[@]}"; do wait "$process" || status=1; done
if [ $status != 0 ]; then cat "$HOSTS_DIR"/out* "$HOSTS_DIR"/errors*; exit 1; fi
cat "$HOSTS_DIR/out0"
sed -n 's/^[^,]*, [0-9]* ranks: /# auto: &/p' "$HOSTS_DIR/errors0"
