#!/usr/bin/env bash
# scripts/gpu-check --only build in front of a driver that is made up, and with a package that was carried along: all of
# CMake's configuring, for the device that the driver names. What would be compiled is looked at and not compiled.
# usage: gpu_build.sh ROOT PYTHON CMAKE XXHASH_FOLDER
set -euo pipefail
export LC_ALL=C
root=$1 python=$2 cmake=$3 xxhash=$4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir tree bin carried
tar -C "$root" -c --exclude=./build --exclude=./.git --exclude=./bench/results . | tar -C tree -x
fail() {
  echo "FAIL: $*"
  cat out tree/build/gpu-check/configure.log
  exit 1
}

# Two devices: the first one counts.
cat > bin/nvidia-smi << 'SCRIPT'
#!/bin/sh
case "$*" in
  "--query-gpu=name --format=csv,noheader") printf 'NVIDIA Made-up\nNVIDIA Other\n' ;;
  "--query-gpu=driver_version --format=csv,noheader") printf '580.1\n580.1\n' ;;
  "--query-gpu=compute_cap --format=csv,noheader") printf '9.0\n7.5\n' ;;
  "") ;;
  *) exit 6 ;;
esac
SCRIPT
cat > bin/cmake << SCRIPT
#!/bin/sh
if [ "\$1" != --build ]; then exec "$cmake" "\$@"; fi
echo "\$@" >> "$folder/built"
SCRIPT
chmod +x bin/*
"$python" - "$xxhash/xxhash.h" << 'PYTHON'
import io
import sys
import tarfile

data = io.BytesIO()
with tarfile.open(fileobj=data, mode="w:xz") as archive:
    archive.add(sys.argv[1], "./usr/include/xxhash.h")
control = io.BytesIO()
with tarfile.open(fileobj=control, mode="w:gz") as archive:
    text = b"Package: made-up\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: made up\n"
    member = tarfile.TarInfo("./control")
    member.size = len(text)
    archive.addfile(member, io.BytesIO(text))
with open("carried/one.deb", "wb") as file:
    file.write(b"!<arch>\n")
    for name, content in (("debian-binary", b"2.0\n"), ("control.tar.gz", control.getvalue()),
                          ("data.tar.xz", data.getvalue())):
        file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
        file.write(content + b"\n" * (len(content) % 2))
PYTHON

status=0
PATH=$folder/bin:$PATH SPARSECOLL_CARRIED=$folder/carried tree/scripts/gpu-check --only build --commit made-up > out 2>&1 ||
  status=$?
[ $status = 0 ] || fail "gpu-check ended with $status"
for words in "gpu NVIDIA Made-up" "driver 580.1" "commit made-up" "== build for sm_90" "== good"; do
  grep -qF -- "$words" out || fail "gpu-check does not say: $words"
done
for line in SPARSECOLL_CUDA_ARCHITECTURES:STRING=90-real SPARSECOLL_WITH_CUDA:STRING=ON SPARSECOLL_WERROR:BOOL=OFF \
  "XXHASH_INCLUDE_DIR:PATH=$(realpath tree)/build/gpu-check/carried/usr/include"; do
  grep -qxF -- "$line" tree/build/cuda/CMakeCache.txt || fail "the build's cache has no $line"
done
for target in device_steps_test device_several_test device_messages_test; do
  grep -q -- "--build build/cuda .* $target " built || fail "$target would not be built"
done
echo "passed"
