# For check.sh and commands.sh.

# The fenced block that begins on the line after line $2 of file $1; fails where there is none, or it has no end.
block_after() {
  awk -v at="$2" 'NR <= at { next } NR == at + 1 { if (!/^```/) exit; next } /^```$/ { ended = 1; exit } { print }
                  END { exit !ended }' "$1"
}
