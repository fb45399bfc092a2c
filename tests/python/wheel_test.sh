#!/usr/bin/env bash
# The wheel, built from the sdist, installs where there is no compiler, and trains on two ranks. Takes minutes.
# usage: wheel_test.sh [FOLDER]      FOLDER: of a wheel that scripts/wheel has built; without it, it is built here
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
unset SPARSECOLL_LIBRARY PYTHONPATH

built=${1:-$place/dist}
[ $# -gt 0 ] || "$root/scripts/wheel" "$built"
wheel=$(realpath "$built"/sparsecoll-*.whl)
case $wheel in
  *-py3-none-manylinux_*.whl) ;;
  *) fail "$wheel is no wheel for every Python and for other machines" ;;
esac
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le 5000000 ] || fail "$wheel has $bytes bytes"

/usr/bin/python3 -m venv --system-site-packages "$place/venv"
mkdir "$place/empty"
cd "$place/empty"
run() { env -i PATH="$place/venv/bin" HOME="$place" OMP_NUM_THREADS=1 "$@"; }
run pip install -q --no-index --no-deps "$wheel"

header=$(sed -nE 's/.*VERSION_CODE SPARSECOLL_VERSION\(([0-9]+), ([0-9]+), ([0-9]+)\).*/\1.\2.\3/p' \
  "$root/include/sparsecoll/sparsecoll.h")
run python3 - "$header" "$place" << 'END' || fail "the package in the wheel"
import importlib.metadata, json, pathlib, sys
import sparsecoll
numbers = {sys.argv[1], sparsecoll.__version__, importlib.metadata.version("sparsecoll"),
           json.loads(sparsecoll.build_info())["version"]}
assert len(numbers) == 1, numbers
library = pathlib.Path(sparsecoll.__file__).with_name("libsparsecoll.so.0")
assert str(library).startswith(sys.argv[2]) and library.is_file() and str(library) in open("/proc/self/maps").read()
[communicator] = sparsecoll.Communicator.threads(1)
communicator.close()
print("version", *numbers, sparsecoll.build_info())
END
needs=$(objdump -p "$place"/venv/lib/python3*/site-packages/sparsecoll/libsparsecoll.so.0 | sed -n 's/.*NEEDED *//p')
for library in $needs; do
  case $library in
    libc.so.6 | libm.so.6 | libgcc_s.so.1 | libpthread.so.0 | libdl.so.2 | ld-linux-*) ;;
    *) fail "the library in the wheel needs $library" ;;
  esac
done

if ! run python3 -c 'import torch' 2> /dev/null; then
  echo "skipped: there is no PyTorch for the example here"
  exit 0
fi
processes=()
port=$(cd "$root/tests/python" && run python3 -Bc 'import launch; print(launch.free_port())')
for rank in 0 1; do
  run RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
    python3 "$root/examples/python/ddp_cifar10.py" --steps 8 --batch-size 4 > "$place/out$rank" 2>&1 &
  processes+=($!)
done
for process in "${processes[@]}"; do wait "$process" || fail "the example: $(cat "$place"/out?)"; done
grep -q "bucket of .*: topka" "$place/out0" || fail "the example was not sparse: $(cat "$place/out0")"
echo "$(basename "$wheel"): $bytes bytes, installed without a compiler, trained on two ranks"
