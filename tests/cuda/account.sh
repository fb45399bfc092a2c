#!/bin/sh
# Runs a compiler of device code. What it tells of the kernels (--resource-usage) goes into a file beside the object,
# OBJECT.account, which resources.sh reads; all else goes where it would have gone.
# usage: account.sh COMPILER... -o OBJECT...
object=
previous=
for argument in "$@"; do
  [ "$previous" != -o ] || object=$argument
  previous=$argument
done
[ -n "$object" ] || exec "$@"

account='^ptxas info |^ +[0-9]+ bytes stack frame'
"$@" 2> "$object.said"
status=$?
grep -E "$account" "$object.said" > "$object.account"
grep -vE "$account" "$object.said" >&2
rm -f "$object.said"
exit $status
