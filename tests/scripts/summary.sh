#!/usr/bin/env bash
# scripts/summary with logs that are made up: which tests it says failed, with what words, and that those stand last.
# usage: summary.sh ROOT
set -euo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/scripts" "$folder"/build/{good,bad}
cp "$root/scripts/summary" "$folder/scripts/summary"
cat > "$folder/build/good/ctest.log" << 'END'
      Start   1: unit.one
1/2 Test   #1: unit.one ........   Passed    0.01 sec
CHECK( said by one that passed )
      Start   2: unit.two
2/2 Test   #2: unit.two ........***Skipped   0.01 sec
skipped: FAIL is only a word here

100% tests passed, 0 tests failed out of 2
END
{
  echo "      Start   1: unit.a long name, with dots..."
  echo "1/3 Test   #1: unit.a long name, with dots... ......***Failed    0.02 sec"
  for line in $(seq 50); do echo "line $line"; done
  printf '%s\n' "test.cpp:7: FAILED:" "  CHECK( a == b )" "with expansion:" "  1 == 2" "" "test.cpp:9: FAILED:" "  CHECK( c )"
  echo "      Start   2: unit.silent"
  echo "2/3 Test   #2: unit.silent ......***Timeout 600.00 sec"
  echo "where it hung"
  echo "      Start   3: unit.good"
  echo "3/3 Test   #3: unit.good ......   Passed    0.02 sec"
  echo
  echo "33% tests passed, 2 tests failed out of 3"
} > "$folder/build/bad/ctest.log"

failed=0
expect() {
  if [ "$1" != "$2" ]; then
    printf 'FAIL: %s\nnot\n%s\n' "$1" "$2"
    failed=1
  fi
}
expect "$("$folder/scripts/summary" good none)" "== good
100% tests passed, 0 tests failed out of 2
== none
no finished test run"
"$folder/scripts/summary" bad good > "$folder/said"
expect "$(grep -c '^line ' "$folder/said")" 33  # the last 40 lines of it, seven of which are not numbered
expect "$(grep '^== ' "$folder/said")" "== bad
== bad: the last words of unit.a long name, with dots...
== bad: the last words of unit.silent
== good
== failed"
expect "$(tail -n 2 "$folder/said")" \
  "bad: unit.a long name, with dots...: test.cpp:7: FAILED: CHECK( a == b ) with expansion: 1 == 2 test.cpp:9: FAILED: CHECK( c )
bad: unit.silent: where it hung"
sed -i "s/where it hung/$(printf 'word %.0s' {1..200})/" "$folder/build/bad/ctest.log"
expect "$("$folder/scripts/summary" bad | tail -n 1 | wc -c)" $((300 + $(printf 'bad: unit.silent:\n' | wc -c)))
[ $failed != 0 ] || echo passed
exit $failed
