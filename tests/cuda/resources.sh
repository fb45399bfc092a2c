#!/usr/bin/env bash
# What device code needs of a processor: no kernel may spill registers to memory, or use more of them than its file's
# budget, which is what it needed when it was last looked at.
# usage: resources.sh NVCC ROOT BUDGETS FLAGS...
#        BUDGETS: lines "file registers"; a file that is not listed fails, and so does one that is listed in vain
set -euo pipefail
nvcc=$1 root=$2 budgets=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# report FILE: the compiler's own account of every kernel.
report() {
  "$nvcc" -x cu "$@" -arch=sm_90 -cubin -Xptxas=-v -o "$work/$(basename "$1").cubin" 2>&1
}
declare -A budget
while read -r file registers; do budget[$file]=$registers; done < <(grep -v '^#' "$budgets")

failed=0
cd "$root"
for source in cuda/*.cu selectors/*_rules.cpp collectives/*_rules.cpp; do
  name=$(basename "$source")
  if [ -z "${budget[$name]:-}" ]; then
    echo "FAIL: $name has no budget"
    failed=1
    continue
  fi
  account=$(report "$source" "$@") || { echo "$account"; exit 1; }
  spills=$(grep -oE '[0-9]+ bytes spill (stores|loads)' <<< "$account" | awk '{sum += $1} END {print sum + 0}')
  most=$(grep -oE 'Used [0-9]+ registers' <<< "$account" | awk '$2 > most {most = $2} END {print most + 0}')
  kernels=$(grep -c 'Used [0-9]* registers' <<< "$account")
  echo "$name: $kernels kernels, at most $most of ${budget[$name]} registers, $spills bytes spilled"
  if [ "$kernels" = 0 ] || [ "$spills" != 0 ] || [ "$most" -gt "${budget[$name]}" ]; then failed=1; fi
  unset "budget[$name]"
done
for name in "${!budget[@]}"; do
  echo "FAIL: $name has a budget, but is not there"
  failed=1
done
exit $failed
