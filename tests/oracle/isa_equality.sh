#!/usr/bin/env bash
# The steps of hash_steps have the same bits under instruction set ISA as under the scalar code.
# usage: isa_equality.sh HASH_STEPS ISA        exit code 77: this machine lacks ISA
set -euo pipefail
program=$1 isa=$2
scalar=$(SPARSECOLL_ISA=scalar "$program")
other=$(SPARSECOLL_ISA=$isa "$program")
if [ "$(head -n1 <<< "$other")" != "isa $isa" ]; then
  echo "skipped: this machine runs $(head -n1 <<< "$other" | cut -d' ' -f2), not $isa"
  exit 77
fi
[ "$(head -n1 <<< "$scalar")" = "isa scalar" ] || { echo "SPARSECOLL_ISA=scalar is ignored"; exit 1; }
lines=$(tail -n +2 <<< "$scalar" | wc -l)
[ "$lines" -ge 40 ] || { echo "only $lines scenarios ran"; exit 1; }
if ! diff <(tail -n +2 <<< "$scalar") <(tail -n +2 <<< "$other"); then
  echo "scalar (<) and $isa (>) differ"
  exit 1
fi
echo "$isa: $lines scenarios with the bits of the scalar code"
