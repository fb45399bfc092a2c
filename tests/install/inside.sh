#!/usr/bin/env bash
# Configures a project that has this one inside, without a word of an earlier time.
# usage: inside.sh CMAKE PARENT FOLDER OPTIONS...
set -euo pipefail
cmake=$1 parent=$2 folder=$3
shift 3
rm -rf "$folder"
"$cmake" -S "$parent" -B "$folder" "$@"
