#!/usr/bin/env bash
# What device code needs of a processor of sm_90: no kernel may spill registers to memory, or use more of them than its
# budget, which is what it needed when it was last looked at; of a template the instance that needs the most. The compiler
# has told when the objects were built (account.sh).
# usage: resources.sh BUDGETS OBJECTS...
#        BUDGETS: lines "file kernel registers"; a kernel that is not listed fails, and so does one listed in vain
set -euo pipefail
budgets=$1
shift

# ofDevice: of an account what it says of kernels on sm_90.
ofDevice() { sed -nE "/Compiling entry function .* for 'sm_90'/,/Used [0-9]+ registers/p"; }
# kernels: of an account the lines "kernel registers". A rule's kernel has the rule's name.
kernels() {
  ofDevice | sed -nE "s/.*Compiling entry function '([^']*)'.*/\1/p; s/.*Used ([0-9]+) registers.*/\1/p" | c++filt |
    sed -E 's/\(anonymous namespace\):://g; s/^void //; s/^.*(run(Rule|Crew)|workTogether|workAsCrew)<&(\(void )?//; s/[<>(].*//; s/.*:://' |
    paste -d' ' - - | sort | awk '$2 > most[$1] {most[$1] = $2} END {for (name in most) print name, most[name]}' | sort
}
declare -A budget
while read -r file kernel registers; do budget[$file $kernel]=$registers; done < <(grep -v '^#' "$budgets")

failed=0
for object in "$@"; do
  name=$(basename "$object" .o)
  [ -s "$object.account" ] || { echo "FAIL: nobody has told what the kernels of $name need"; exit 1; }
  grep -q "for 'sm_90'" "$object.account" || { echo "skipped: $name was not compiled for sm_90"; [ $failed = 0 ] && exit 77 || exit 1; }
  spills=$(ofDevice < "$object.account" | grep -oE '[0-9]+ bytes spill (stores|loads)' | awk '{sum += $1} END {print sum + 0}')
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
  done < <(kernels < "$object.account")
done
for name in "${!budget[@]}"; do
  echo "FAIL: ${name#* } of ${name% *} has a budget, but is not there"
  failed=1
done
exit $failed
