#!/usr/bin/env bash
# The Markdown files, read with suspicion: what they include is what the file holds, their links lead somewhere, every
# preset is described, every promise of reliability names tests that exist, and no path of one machine is left in them.
# usage: check.sh ROOT PRESETS_PROGRAM
#        check.sh --self-test             (every planted fault must be found)
set -euo pipefail
export LC_ALL=C
. "$(dirname "$0")/blocks.sh"

failed=0
fail() { echo "FAIL: $*"; failed=1; }

# The files that are, or could be, committed. An unpacked release has no git to ask.
list_documents() {
  if ! { [ -e .git ] && git ls-files --cached --others --exclude-standard -- '*.md' 2> /dev/null; }; then
    find . -name build -prune -o -name .git -prune -o -type f -name '*.md' -print | sed 's|^\./||'
  fi
}

# The text outside of fenced blocks.
prose() { awk '/^ *```/ { fenced = !fenced; next } !fenced' "$1"; }

check_includes() {
  local document=$1 line text source
  while IFS=: read -r line text; do
    source=${text#*include: }
    source=${source%% *}
    if [ ! -f "$source" ]; then
      fail "$document:$line: there is no $source to include"
    elif ! diff -u --label "$source" --label "$document:$line" "$source" <(block_after "$document" "$line"); then
      fail "$document:$line: the block is not what $source holds"
    fi
  done < <(grep -nE '^<!-- include: [^ ]+ -->$' "$document")
  if [ "$(grep -c '<!-- *include' "$document")" != "$(grep -cE '^<!-- include: [^ ]+ -->$' "$document")" ]; then
    fail "$document: an include marker is not a line '<!-- include: PATH -->'"
  fi
}

# What GitHub makes of a heading.
anchors() { prose "$1" | sed -nE 's/^#+ +//p' | tr '[:upper:] ' '[:lower:]-' | sed -E 's/[^a-z0-9_-]//g'; }

check_links() {
  local document=$1 link target anchor
  while read -r link; do
    case $link in *://* | mailto:*) continue ;; esac
    target=${link%%#*}
    anchor=
    [[ $link == *'#'* ]] && anchor=${link#*#}
    if [ -z "$target" ]; then target=$document; else target=$(dirname "$document")/$target; fi
    if [ ! -e "$target" ]; then
      fail "$document: the link $link leads nowhere"
    elif [ -n "$anchor" ] && ! anchors "$target" | grep -xF -- "$anchor" > /dev/null; then
      fail "$document: the link $link names no heading"
    fi
  done < <(prose "$document" | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\((.*)\)$/\1/')
}

# Items "- T01 promise (`a/test`, ...); missing: what", each once and in order. They name tests that exist, or none where
# all of it is missing. An item may go on in indented lines.
check_promises() {
  local document=docs/reliability-tests.md number item name names wanted=0 many=70
  [ -f $document ] || return 0
  while read -r _ number item; do
    wanted=$((wanted + 1))
    [ "$number" = "$(printf 'T%02d' $wanted)" ] || fail "$document: item $wanted is $number"
    [[ $item == [a-zA-Z0-9+]* ]] || fail "$document: $number promises nothing"
    names=$(grep -oE '`[a-z]+/[a-z_0-9]+`' <<< "$item" | tr -d '`' || true)
    [ -n "$names" ] || [[ $item == *'missing: all of it'* ]] || fail "$document: $number names no test"
    for name in $names; do
      compgen -G "tests/$name.*" > /dev/null || fail "$document: $number names tests/$name, which is not there"
    done
  done < <(awk '/^- T[0-9]+/ { if (item) print item; item = $0; next } /^  / && item { item = item $0; next }
                { if (item) print item; item = "" } END { if (item) print item }' $document)
  [ $wanted = $many ] || fail "$document: $wanted promises, not $many"
}

check() {
  local document documents=() preset presets=0 text
  cd "$1"
  while read -r document; do
    if [ -f "$document" ]; then documents+=("$document"); fi
  done < <(list_documents)
  if [ ${#documents[@]} = 0 ]; then fail "no document found in $1"; return 1; fi
  for document in "${documents[@]}"; do
    check_includes "$document"
    check_links "$document"
  done

  check_promises

  while read -r preset; do
    presets=$((presets + 1))
    # Variants of a method, "name-variant", share its page.
    [ -f "docs/algorithms/$preset.md" ] || [ -f "docs/algorithms/${preset%%-*}.md" ] ||
      fail "preset $preset has no docs/algorithms/$preset.md"
  done < <("$2")
  [ $presets -gt 0 ] || fail "$2 names no preset"

  # A slash after a word or a dot is part of an address or a longer path.
  while IFS= read -r text; do
    fail "$text: a path of one machine"
  done < <(grep -nHE '(^|[^[:alnum:]_.])/(work|home|root|Users|mnt)/' "${documents[@]}")

  echo "${#documents[@]} documents, $presets presets"
  return $failed
}

# tree FILE TEXT: a small correct tree in $dir, then FILE with TEXT in it.
tree() {
  rm -rf "${dir:?}"/*
  mkdir -p "$dir"/docs/algorithms "$dir"/examples "$dir"/tests/a
  touch "$dir/tests/a/b.cpp"
  printf 'int main(void) {\n  return 0;\n}\n' > "$dir/examples/a.c"
  printf '# One\n\n## Two words, and `code`\n' > "$dir/docs/algorithms/one.md"
  printf '#!/usr/bin/env bash\necho one\n' > "$dir/presets"
  chmod +x "$dir/presets"
  printf '%b' "$2" > "$dir/$1"
}

# expect MESSAGE FILE TEXT: the check fails once, with MESSAGE, because of FILE; it passes where MESSAGE is "ok".
expect() {
  local found=ok
  tree "$2" "$3"
  (check "$dir" "$dir/presets") > "$dir/log" || found=$(grep '^FAIL' "$dir/log")
  if [[ $found != *"$1"* || $found == *$'\n'* ]]; then
    echo "FAIL: expected \"$1\" for $2 with: $3"
    cat "$dir/log"
    exit 1
  fi
  echo "$2: ${3:0:80}: $1"
}

self_test() {
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  local include='<!-- include: examples/a.c -->\n'
  local code='int main(void) {\n  return 0;\n}\n'

  expect ok a.md "text\n$include\`\`\`c\n$code\`\`\`\nmore\n"
  expect 'not what examples/a.c holds' a.md "$include\`\`\`c\nint main(void) {\n  return 1;\n}\n\`\`\`\n"
  expect 'not what examples/a.c holds' a.md "$include\`\`\`c\n$code\n\`\`\`\n"
  expect 'not what examples/a.c holds' a.md "$include\n\`\`\`c\n$code\`\`\`\n"
  expect 'not what examples/a.c holds' a.md "$include"
  expect 'no examples/b.c to include' a.md '<!-- include: examples/b.c -->\n'
  expect 'is not a line' a.md '<!--include: examples/a.c-->\n'

  expect ok a.md '[one](docs/algorithms/one.md), [it](docs/algorithms/one.md#two-words-and-code), [x](https://example.org/y)\n'
  expect ok docs/a.md '# Here\n[one](algorithms/one.md) [up](../examples/a.c) [self](#here) [folder](algorithms)\n'
  expect ok a.md '```\n[no link](nowhere.md)\n```\n'
  expect 'nowhere.md leads nowhere' a.md 'see [there](nowhere.md)\n'
  expect 'one.md leads nowhere' docs/a.md 'see [there](one.md)\n'
  expect 'names no heading' a.md 'see [there](docs/algorithms/one.md#three)\n'
  expect 'names no heading' docs/a.md 'see [there](#three)\n'

  expect ok presets '#!/usr/bin/env bash\necho one\n'
  expect 'preset two has no' presets '#!/usr/bin/env bash\necho one\necho two\n'
  expect 'names no preset' presets '#!/usr/bin/env bash\n'

  promises() { for n in $(seq -w "$1"); do printf -- '- T%s it holds (`a/b`,\n  `a/b`); missing: more\n' "$n"; done; }
  expect ok docs/reliability-tests.md "$(promises 70)"
  expect '69 promises, not 70' docs/reliability-tests.md "$(promises 69)"
  expect 'item 2 is T03' docs/reliability-tests.md "$(promises 70 | sed 's/^- T02 /- T03 /')"
  expect 'T05 promises nothing' docs/reliability-tests.md "$(promises 70 | sed '/T05/s/it holds //')"
  expect 'T05 names tests/a/c, which' docs/reliability-tests.md "$(promises 70 | sed '/T05/s/b`/c`/')"
  expect 'T05 names tests/a/c, which' docs/reliability-tests.md "$(promises 70 | sed '/T05/{n;s/b`/c`/}')"
  expect 'T05 names no test' docs/reliability-tests.md "$(promises 70 | sed '/T05/s/`a.b`/none/; /T05/{n;s/`a.b`//}')"
  expect ok docs/reliability-tests.md "$(promises 70 | sed '/T05/s/`a.b`/none/; /T05/{n;s/`a.b`//;s/more/all of it/}')"

  expect 'a path of one machine' a.md 'built in /ho''me/somebody\n'
  expect ok a.md 'see https://example.org/home/page, docs/work/plan\n'
}

if [ "$1" = --self-test ]; then self_test; else check "$1" "$2"; fi
