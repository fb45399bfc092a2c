#!/usr/bin/env bash
# What device code needs of a processor: no kernel may spill registers to memory, or use more of them than its budget,
# which is what it needed when it was last looked at; of a template the instance that needs the most.
# usage: resources.sh NVCC ROOT BUDGETS FLAGS...
#        BUDGETS: lines "file kernel registers"; a kernel that is not listed fails, and so does one listed in vain
set -euo pipefail
nvcc=$1 root=$2 budgets=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# report FILE: the compiler's own account of every kernel.
report() {
  "$nvcc" -x cu "$@" -arch=sm_90 -cubin -Xptxas=-v -o "$work/$(basename "$1").cubin" 2>&1
}
# kernels: of an account the lines "kernel registers". A rule's kernel has the rule's name.
kernels() {
  sed -nE "s/.*Compiling entry function '([^']*)'.*/\1/p; s/.*Used ([0-9]+) registers.*/\1/p" | c++filt |
    sed -E 's/\(anonymous namespace\):://g; s/^void //; s/^.*run(Rule|Crew)<&(\(void )?//; s/[<>(].*//; s/.*:://' |
    paste -d' ' - - | sort | awk '$2 > most[$1] {most[$1] = $2} END {for (name in most) print name, most[name]}' | sort
}
declare -A budget
while read -r file kernel registers; do budget[$file $kernel]=$registers; done < <(grep -v '^#' "$budgets")

failed=0
cd "$root"
for source in cuda/*.cu selectors/*_rules.cpp collectives/*_rules.cpp; do
  name=$(basename "$source")
  account=$(report "$source" "$@") || { echo "$account"; exit 1; }
  spills=$(grep -oE '[0-9]+ bytes spill (stores|loads)' <<< "$account" | awk '{sum += $1} END {print sum + 0}')
  if [ "$spills" != 0 ]; then
    echo "FAIL: $name spills $spills bytes"
    failed=1
  fi
  while read -r kernel registers; do
    echo "$name $kernel $registers"
    if [ "$registers" -gt "${budget[$name $kernel]:-0}" ]; then
      echo "FAIL: $kernel of $name uses $registers registers, its budget is ${budget[$name $kernel]:-not there}"
      failed=1
    fi
    unset "budget[$name $kernel]"
  done < <(kernels <<< "$account")
done
for name in "${!budget[@]}"; do
  echo "FAIL: ${name#* } of ${name% *} has a budget, but is not there"
  failed=1
done
exit $failed
