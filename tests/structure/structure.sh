#!/usr/bin/env bash
# The layers, read from the files: a folder includes only what stands below it, project headers
# are named from the repository root, files stay short, and nothing is left lying around.
# Functions of the C ABI begin with what catches all exceptions (src/guard.h), or are shown to throw none.
# usage: structure.sh ROOT
#        structure.sh --self-test      (every planted fault must be found)
set -euo pipefail
export LC_ALL=C

# Folder -> the folders it may include from, besides itself. Selectors and collectives do not know each other, nor the
# kernels and engines that src/ joins them with. Folders that are not listed (tests, bench, examples) are free.
declare -A below=(
  [include]=""
  [core]="include"
  [host]="core include"
  [cuda]="core include"
  [transports]="core include"
  [selectors]="core include"
  [collectives]="core include"
  [src]="core host cuda transports selectors collectives include"
)
# What all folders that call CUDA include.
device_calls=cuda/calls.h
# Headers of CUDA, NCCL, MPI and UCX.
engines='^(cuda|cub|thrust|cooperative_groups|nv|nccl|mpi|uc[pstxm])([/_.]|[a-z_]*\.h)'
# Names of the standard library in files that devices run. More of it compiles and is wrong there: what its constant
# expressions call of a compiler's own functions (__builtin_constant_p in std::advance, and so in std::lower_bound;
# __builtin_clzl in std::bit_width), nvcc silently takes for something that does nothing.
device_names=" abs array bit_cast byte ceil clamp decay_t floor is_standard_layout_v is_trivially_copyable_v max memcpy min \
move numeric_limits shared_ptr span sqrt swap trunc unique_ptr vector "
# Where the host alone runs them.
host_names=" core/crew.h:iota core/crew.h:sort core/numeric.h:bit_width "
longest_wished=400
longest_allowed=500
tells=tests/faults/tells_test.cpp  # functions of the C ABI without a result
one_header=include/sparsecoll/sparsecoll.h  # users read and copy it as one file, however many methods it names

failed=0
fail() { echo "FAIL: $*"; failed=1; }

# The files that are, or could be, committed. An unpacked release has no git to ask.
list_files() {
  if ! { [ -e .git ] && git ls-files --cached --others --exclude-standard 2> /dev/null; }; then
    find . -name build -prune -o -name .git -prune -o -type f -print | sed 's|^\./||'
  fi
}

# A header that is made from a template at configure time counts as the template.
is_here() { [ -f "$1" ] || [ -f "$1.in" ]; }

# check_include FILE:LINE FOLDER NAME QUOTE
check_include() {
  local place=$1 folder=$2 name=$3 quote=$4 target
  if [ "$quote" = '<' ]; then
    if [[ $name =~ $engines ]]; then
      case $place in
        cuda/* | transports/* | include/sparsecoll/mpi.h:*) ;;
        *) fail "$place: <$name> belongs into cuda/ or transports/ only" ;;
      esac
    elif [[ $name != sparsecoll/* && -f $name ]]; then
      fail "$place: <$name> is a project header: write \"$name\""
    fi
    return
  fi
  if [[ $name == sparsecoll/* ]] && is_here "include/$name"; then
    target=include
  elif is_here "$name"; then
    target=${name%%/*}
  else
    fail "$place: \"$name\" is no file seen from the repository root (other people's headers go in <>)"
    return
  fi
  [[ $folder == transports && $name == "$device_calls" ]] && return
  [[ " $folder ${below[$folder]} " == *" $target "* ]] || fail "$place: $folder/ may not include \"$name\""
}

check() {
  local files=() sources=() layered=() file line lines text
  cd "$1"
  while read -r file; do
    [ -f "$file" ] || continue
    files+=("$file")
    case $file in *.c | *.h | *.cpp | *.hpp | *.cu | *.cuh) sources+=("$file") ;; *) continue ;; esac
    [[ $file == */* && -v "below[${file%%/*}]" ]] && layered+=("$file")
  done < <(list_files)
  if [ ${#layered[@]} = 0 ]; then fail "no source file found in $1"; return 1; fi

  while IFS=: read -r file line text; do
    [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*([\<\"])([^\>\"]+) ]]
    check_include "$file:$line" "${file%%/*}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"
  done < <(grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' "${layered[@]}")

  while read -r lines file; do
    if [ "$file" = $one_header ]; then
      continue
    elif [ "$lines" -gt $longest_allowed ]; then
      fail "$file: $lines lines, more than $longest_allowed"
    elif [ "$lines" -gt $longest_wished ]; then
      echo "warning: $file: $lines lines, more than $longest_wished"
    fi
  done < <(wc -l "${sources[@]}" | grep -v ' total$')

  for file in "${layered[@]}"; do
    case $file in
      *.cu | *_rules.cpp) ;;
      *.h) grep -qE 'SC_BOTH|SC_HD|__device__' "$file" || continue ;;
      *) continue ;;
    esac
    while read -r text; do
      [[ $device_names == *" $text "* || $host_names == *" $file:$text "* ]] ||
        fail "$file: std::$text in a file that devices run"
    done < <(sed 's|//.*||' "$file" | grep -oE 'std::[a-z_0-9]+' | sed 's/std:://' | sort -u)
  done

  while IFS= read -r text; do
    fail "$text"
  done < <(awk '
    function check(name) {
      if (index($0, "return guard(\"" name "\", ") == 0) print FILENAME ": sparsecoll" name " is not guarded"
    }
    body != "" { check(body); body = "" }
    /^sparsecollResult_t sparsecoll[A-Z]/ { head = substr($2, 11); sub(/\(.*/, "", head) }
    head != "" && /\{$/ { body = head; head = "" }
    head != "" && /\{/ { check(head); head = "" }
    /;$/ { head = "" }
  ' src/*.cpp)
  while IFS=: read -r file text; do
    grep -qw "$text" "$tells" 2> /dev/null ||
      fail "$file: $text has no result, and $tells does not show that it throws nothing"
  done < <(grep -HoE '^[a-z][a-z0-9_ *]* \**sparsecoll[A-Z][A-Za-z]*\(' src/api_*.cpp 2> /dev/null |
    grep -v ':sparsecollResult_t ' | sed -E 's/:.*(sparsecoll[A-Z][A-Za-z]*)\($/:\1/')

  # A folder of the machine somebody worked on. A slash after a word or a dot is part of an address or a longer path.
  while IFS= read -r text; do
    fail "$text: a path of one machine"
  done < <(grep -nHIE '(^|[^[:alnum:]_.])/(work|home|root)/' "${files[@]}")

  while IFS= read -r text; do
    fail "$text: do it or drop it"
  done < <(grep -nHIwE 'TO''DO|FIX''ME' "${files[@]}")

  echo "${#files[@]} files, ${#layered[@]} of them in layers"
  return $failed
}

# tree FILE TEXT: a small correct tree in $dir, then FILE with TEXT in it.
tree() {
  local folder
  rm -rf "${dir:?}"/*
  mkdir -p "$dir"/{include/sparsecoll,core,host,cuda,transports,selectors,collectives,src,tests,docs}
  touch "$dir/include/sparsecoll/sparsecoll.h" "$dir/core/version.h.in"
  for folder in core host cuda transports selectors collectives; do touch "$dir/$folder/a.h"; done
  printf '#include "%s/a.h"\n' core host cuda transports selectors collectives > "$dir/src/a.cpp"
  printf '#include <vector>\n#include "core/a.h"\n#include "core/version.h"\n' > "$dir/collectives/a.cpp"
  printf '%b' "$2" > "$dir/$1"
}

# expect MESSAGE FILE TEXT: the check fails with MESSAGE because of FILE; it passes where MESSAGE is "ok".
expect() {
  local found=ok
  tree "$2" "$3"
  (check "$dir") > "$dir/log" || found=$(grep '^FAIL' "$dir/log")
  if [[ $found != *"$1"* || $found == *$'\n'* ]]; then
    echo "FAIL: expected \"$1\" for $2 with: ${3:0:80}"
    cat "$dir/log"
    exit 1
  fi
  echo "$2: ${3:0:80}: $1"
}

self_test() {
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  local many
  many=$(printf ';\\n%.0s' {1..500})

  expect ok src/b.cpp '#include "selectors/a.h"\n#include <sparsecoll/sparsecoll.h>\n'
  expect ok host/b.cpp '#include "host/a.h"\n#include "sparsecoll/sparsecoll.h"\n'
  expect ok transports/b.cpp '#include <nccl.h>\n#include "include/sparsecoll/sparsecoll.h"\n'
  expect ok docs/b.md 'see https://example.org/home/page and ../work/plan\n'
  expect ok tests/b.cpp "$many"
  expect 'core/ may not include' core/b.h '#include "host/a.h"\n'
  expect 'core/ may not include' core/b.h '#  include "src/a.cpp"\n'
  expect 'include/ may not include' include/sparsecoll/b.h '#include "core/a.h"\n'
  expect 'host/ may not include' host/b.h '#include "transports/a.h"\n'
  expect 'transports/ may not include' transports/b.cpp '#include "host/a.h"\n'
  expect 'selectors/ may not include' selectors/b.cpp '#include "collectives/a.h"\n'
  expect 'selectors/ may not include' selectors/b.cpp '#include "host/a.h"\n'
  expect 'collectives/ may not include' collectives/b.cpp '#include "selectors/a.h"\n'
  expect 'collectives/ may not include' collectives/b.cpp '#include "transports/a.h"\n'
  expect 'no file seen from the repository root' core/b.cpp '#include "a.h"\n'
  expect 'is a project header' core/b.cpp '#include <core/a.h>\n'
  expect 'transports/ only' core/b.cpp '#include <cuda_runtime.h>\n'
  expect 'transports/ only' src/b.cpp '#include <mpi.h>\n'
  expect 'transports/ only' src/b.cpp '#include <ucp/api/ucp.h>\n'
  expect 'transports/ only' collectives/b.cpp '#include <nccl.h>\n'
  expect ok cuda/b.cu 'int a = std::max(1, 2);  // not std::sort\n'
  expect ok cuda/b.h 'inline void f() { std::sort(a, b); }\n'
  expect 'std::lower_bound in a file that devices run' selectors/b_rules.cpp 'auto x = std::lower_bound(a, b, c);\n'
  expect 'std::gcd in a file that devices run' core/b.h 'SC_HD inline int f() { return std::gcd(6, 4); }\n'
  expect ok src/b.cpp 'sparsecollResult_t sparsecollGet(int a,\n  int b) {\n  return guard("Get", [&]() -> Status {\n'
  expect 'sparsecollGet is not guarded' src/b.cpp 'sparsecollResult_t sparsecollGet(int a,\n  int b) {\n  f();\n'
  expect 'sparsecollGet is not guarded' src/b.cpp 'sparsecollResult_t sparsecollGet() { return f(); }\n'
  expect 'sparsecollGet is not guarded' src/b.cpp 'sparsecollResult_t sparsecollGet() {\n  return guard("Set", f);\n}\n'
  expect ok src/b.cpp 'sparsecollResult_t sparsecollGet();\nint f() {\n  return 1;\n}\n'
  expect ok src/b.cpp 'sparsecollResult_t sparsecollGet() { return guard("Get", f); }\n'
  expect 'sparsecollName has no result' src/api_b.cpp 'const char* sparsecollName(int a) {\n'
  expect 'a path of one machine' docs/b.md 'built in /ho''me/somebody\n'
  expect 'do it or drop it' tests/b.cpp '// TO''DO: later\n'
  expect '501 lines' tests/b.cpp "$many;\n"
}

if [ "$1" = --self-test ]; then self_test; else check "$1"; fi
