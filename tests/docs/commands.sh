#!/usr/bin/env bash
# What pages tell a reader to type is typed: a fenced block behind a line "<!-- run: NAME -->" is run as it stands, in
# README.md and docs/guide. Blocks of one page run in their order, in a folder that holds nothing but train.c, which is
# examples/hello/hello.c. A cmake block is a project that is configured, built and run; any other block is a shell's.
# PREFIX and /opt/sparsecoll stand for where the library was installed; nothing else is changed.
# usage: commands.sh ROOT BUILD_DIR CONFIGURATION CMAKE
#        commands.sh --self-test             (every planted fault must be found)
set -euo pipefail
export LC_ALL=C
. "$(dirname "$0")/blocks.sh"
limit=300 # seconds a block may take

failed=0
ran=0
fail() { echo "FAIL: $*"; failed=1; }

# run_block LANGUAGE SCRIPT: in the current folder.
run_block() {
  if [ "$1" != cmake ]; then
    timeout $limit bash -eu "$2"
    return
  fi
  cp "$2" CMakeLists.txt
  timeout $limit "$cmake" -S . -B "by cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release &&
    timeout $limit "$cmake" --build "by cmake" && timeout $limit "by cmake/train"
}

check_document() {
  local document=$1 line name language place script
  place=$(mktemp -d "$work/page.XXXXXX")
  cp "$root/examples/hello/hello.c" "$place/train.c"
  while IFS=: read -r line name; do
    name=${name#*run: }
    name=${name% -->}
    script=$work/block
    if ! block_after "$root/$document" "$line" | sed "s|/opt/sparsecoll|$prefix|g; s|\\bPREFIX\\b|$prefix|g" > "$script"; then
      fail "$document:$line: no fenced block begins on the next line"
      continue
    fi
    language=$(sed -n "$((line + 1))s/^\`\`\`//p" "$root/$document")
    ran=$((ran + 1))
    if (cd "$place" && run_block "$language" "$script") > "$work/log" 2>&1 < /dev/null; then
      echo "$document:$line: $name: ok"
    else
      fail "$document:$line: $name does not run"
      sed 's/^/  /' "$work/log"
    fi
  done < <(grep -nE '^<!-- run: [^ ]+ -->$' "$root/$document")
  if [ "$(grep -c '<!-- *run' "$root/$document")" != "$(grep -cE '^<!-- run: [^ ]+ -->$' "$root/$document")" ]; then
    fail "$document: a marker is not a line '<!-- run: NAME -->'"
  fi
}

# check ROOT: with the library at $prefix.
check() {
  local document
  root=$1
  for document in README.md docs/guide/*.md; do
    if [ -f "$root/$document" ]; then check_document "$document"; fi
  done
  echo "$ran blocks ran"
  [ $ran -gt 0 ] || fail "no block is marked to be run"
  return $failed
}

# expect MESSAGE TEXT: the check of a README with TEXT fails with MESSAGE; it passes where MESSAGE is "ok".
expect() {
  local found=ok
  rm -rf "$work/tree"
  mkdir -p "$work/tree/docs/guide" "$work/tree/examples/hello"
  printf 'int main(void) { return 0; }\n' > "$work/tree/examples/hello/hello.c"
  printf '%b' "$2" > "$work/tree/README.md"
  (cd "$work/tree" && check "$work/tree") > "$work/found" || found=$(grep '^FAIL' "$work/found")
  if [[ $found != *"$1"* || $found == *$'\n'* ]]; then
    echo "FAIL: expected \"$1\" with: $2"
    cat "$work/found"
    exit 1
  fi
  echo "${2:0:100}: $1"
}

self_test() {
  local run='<!-- run: it -->\n'
  prefix=$work/prefix
  cmake=false
  limit=1
  mkdir "$prefix"
  touch "$prefix/here"
  expect ok "text\n$run\`\`\`\ntest -f train.c\n\`\`\`\nmore\n"
  expect ok "$run\`\`\`sh\ntouch a\n\`\`\`\n\n$run\`\`\`\ntest -f a\n\`\`\`\n"
  expect ok "$run\`\`\`\ntest -f PREFIX/here && test -f /opt/sparsecoll/here\n\`\`\`\n"
  expect 'it does not run' "$run\`\`\`\nfalse\ntrue\n\`\`\`\n"
  expect 'it does not run' "$run\`\`\`\necho \$not_set\n\`\`\`\n"
  expect 'it does not run' "$run\`\`\`\ntest -f b\n\`\`\`\n\n$run\`\`\`\ntouch b\n\`\`\`\n"
  expect 'it does not run' "$run\`\`\`\nsleep 20\n\`\`\`\n"
  expect 'it does not run' "$run\`\`\`cmake\nadd_executable(train train.c)\n\`\`\`\n"
  expect 'begins on the next line' "\`\`\`\ntrue\n\`\`\`\n<!-- run: it -->\n\n\`\`\`\ntrue\n\`\`\`\n$run\`\`\`\ntrue\n\`\`\`\n"
  expect 'begins on the next line' "$run\`\`\`\ntrue\n\`\`\`\n$run\`\`\`\ntrue\n"
  expect 'is not a line' "$run\`\`\`\ntrue\n\`\`\`\n<!--run: it-->\n"
  expect 'no block is marked' "\`\`\`\ntrue\n\`\`\`\n"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$1" = --self-test ]; then
  self_test
  exit
fi
build_dir=$2 configuration=$3 cmake=$4
for program in cc pkg-config; do
  command -v $program > /dev/null || { echo "skipped: there is no $program here"; exit 77; }
done
prefix=$work/prefix
"$cmake" --install "$build_dir" --config "$configuration" --prefix "$prefix" > /dev/null
cd "$1"
check "$PWD"
