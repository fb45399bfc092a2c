#!/usr/bin/env bash
# scripts/suite with a build and tests that are made up: what runs, beside what, and what it ends with.
# usage: suite.sh ROOT
set -euo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/scripts" "$folder/bin" "$folder"/build/{one,two,three}
cp "$root/scripts/suite" "$folder/scripts/suite"

# Each notes what it does. Tests of one end when two is being built, whichever begins first. FAILS names what fails.
cat > "$folder/bin/cmake" << END
#!/bin/bash
what=configure
if [ "\$1" = --build ]; then what=build; shift; fi
echo "\$what \$2 nice \$(nice)" >> "$folder/done"
if [ "\$what \$2" = "build two" ]; then touch "$folder/building"; fi
[ "\$FAILS" != "\$what \$2" ] || exit 3
END
cat > "$folder/bin/ctest" << END
#!/bin/bash
if [ "\$2" = one ]; then
  while [ ! -e "$folder/building" ]; do sleep 0.01; done
fi
echo "test \$2" >> "$folder/done"
while [ "\$1" != --output-log ]; do preset=\${preset:-\$2}; shift; done
echo "said by \$preset" > "\$2"
[ "\$FAILS" != "test \$preset" ] || exit 8
END
chmod +x "$folder"/bin/*

failed=0
# expect FAILS STATUS STEPS: STEPS are what is done, sorted, as some of it is done at the same time.
expect() {
  local status=0 steps
  rm -f "$folder/done" "$folder/building"
  FAILS=$1 PATH="$folder/bin:$PATH" timeout 60 "$folder/scripts/suite" 1 1 one two three > "$folder/said" 2>&1 || status=$?
  steps=$(sed 's/ nice.*//' "$folder/done" | sort | paste -sd,)
  if [ $status != "$2" ] || [ "$steps" != "$3" ]; then
    echo "FAIL: where $1 fails the end is $status, not $2, after $steps"
    cat "$folder/said"
    failed=1
  fi
}
all="build one,build three,build two,configure one,configure three,configure two,test one,test three,test two"
expect nothing 0 "$all"
for preset in one two three; do
  grep -qx "said by $preset" "$folder/said" || { echo "FAIL: nobody learns what the tests of $preset said"; failed=1; }
done
expect "test three" 8 "$all"
expect "test one" 8 "$all"
expect "build two" 3 "build one,build two,configure one,configure two,test one"
expect "configure one" 3 "configure one"
usual=$(nice)
expect nothing 0 "$all"
for step in "build one nice $usual" "build two nice $((usual + 10 > 19 ? 19 : usual + 10))"; do
  grep -qx "$step" "$folder/done" || { echo "FAIL: not done: $step"; failed=1; }
done
[ $failed != 0 ] || echo passed
exit $failed
