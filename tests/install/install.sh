#!/usr/bin/env bash
# Installs into a prefix with a space in its path, moves it, and builds and runs a C program against it twice: found by
# find_package and found by pkg-config.
# usage: install.sh BUILD_DIR CONFIGURATION PROGRAM.c LIBDIR CMAKE C_COMPILER
set -euo pipefail
build_dir=$1 configuration=$2 program=$3 libdir=$4 cmake=$5 compiler=$6
here=$(cd "$(dirname "$0")" && pwd)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
prefix="$dir/a moved prefix"
"$cmake" --install "$build_dir" --config "$configuration" --prefix "$dir/the first prefix"
mv "$dir/the first prefix" "$prefix" # from here on a path that was written down at install time is a dead one

echo "== programs"
for installed in "$prefix"/bin/sparsecoll-*; do
  [ -e "$installed" ] || continue
  "$installed" --version
done
for tool in run perf tune; do
  [ ! -e "$build_dir/bin/sparsecoll-$tool" ] || [ -e "$prefix/bin/sparsecoll-$tool" ]
done

echo "== find_package"
"$cmake" -S "$here/consumer" -B "$dir/by cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" \
  -DPROGRAM="$program" -DCMAKE_BUILD_TYPE="$configuration"
"$cmake" --build "$dir/by cmake"
if ! grep -qF "sparsecoll_DIR:PATH=$prefix/" "$dir/by cmake/CMakeCache.txt"; then
  echo "FAIL: find_package found another sparsecoll"
  exit 1
fi
"$dir/by cmake/consumer"

echo "== pkg-config"
if ! command -v pkg-config > /dev/null; then
  echo "skipped: there is no pkg-config here"
  exit 77
fi
# pkg-config before pkgconf (version 0.x) cannot have a space in the path of a .pc file that names itself.
if [[ $(pkg-config --version) == 0.* ]]; then
  ln -s "$prefix" "$dir/prefix"
  prefix=$dir/prefix
fi
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
flags=$(pkg-config --cflags --libs sparsecoll)
echo "$flags"
# pkg-config escapes for a shell, so a shell must read what it prints.
eval "\"\$compiler\" \"\$program\" -pthread -o \"\$dir/by pkg-config\" $flags"
LD_LIBRARY_PATH="$prefix/$libdir" "$dir/by pkg-config"
