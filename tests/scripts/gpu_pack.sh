#!/usr/bin/env bash
# scripts/gpu-half-hour pack with a package that was carried along: all of CMake's configuring. What would be compiled is
# looked at, and something small is compiled instead, which is packed with its library and run from the archive.
# usage: gpu_pack.sh ROOT PYTHON CMAKE XXHASH_FOLDER
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
  cat out
  exit 1
}

# Programs that do nothing, with a library of their own. with_rpath: how they find it.
cat > bin/cmake << SCRIPT
#!/usr/bin/env bash
if [[ "\$1" != --build || " \$* " == *" help "* ]]; then exec "$cmake" "\$@"; fi
echo "\$@" >> "$folder/built"
mkdir -p "$folder/libraries" \$2/bin
echo 'int made(void) { return 0; }' | cc -shared -x c -o "$folder/libraries/libmade.so" -
echo 'int made(void); int main(void) { return made(); }' |
  cc -x c -o made - -L"$folder/libraries" -lmade "\$(cat "$folder/with_rpath")"
while [ "\$1" != --target ]; do shift; done
for target in "\${@:2}"; do cp made build/gpu-programs/bin/\$target; done
SCRIPT
cat > bin/nvidia-smi << 'SCRIPT'
#!/bin/sh
case $1 in
  *=compute_cap) printf '8.9\n7.5\n' ;;
  *) echo "Made-up, 580.1, 8.9" ;;
esac
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


export PATH=$folder/bin:$PATH LD_LIBRARY_PATH=$folder/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export SPARSECOLL_CARRIED=$folder/carried
packs() {
  local expected=$1 words=$2 status=0
  shift 2
  tree/scripts/gpu-half-hour pack --commit made-up "$@" > out 2>&1 || status=$?
  [ $status = "$expected" ] || fail "pack ended with $status, not $expected"
  grep -qF -- "$words" out || fail "pack does not say: $words"
}

echo '-Wl,-rpath,$ORIGIN' > with_rpath
packs 0 "programs.tar.xz: " --cmake=-DSPARSECOLL_WERROR=OFF
for line in SPARSECOLL_CUDA_ARCHITECTURES:STRING=90-real SPARSECOLL_WITH_CUDA:STRING=ON SPARSECOLL_WERROR:BOOL=OFF \
  "XXHASH_INCLUDE_DIR:PATH=$(realpath tree)/build/gpu-programs/carried/usr/include"; do
  grep -qxF -- "$line" tree/build/gpu-programs/CMakeCache.txt || fail "the build's cache has no $line"
done
tar -tf tree/build/gpu-half-hour/programs.tar.xz > out
for file in device_{steps,several,messages,cut,pass,lists}_test sparsecoll-{perf,device,rivals} libmade.so commit.txt
do
  grep -qxF "$file" out || fail "$file is not packed"
done

# From the archive alone.
rm -r libraries tree/build/gpu-programs
tree/scripts/gpu-half-hour 2 results > out 2>&1 || fail "the packed programs do not run"
grep -q "^test-vectors: passed" out || fail "the packed programs were not run"
tar -xOf results/gpu-half-hour-2.tar.gz gpu-half-hour-2/machine.txt > out
grep -qx "commit made-up" out || fail "nobody knows what was packed"

# All of it, for the first device of this machine.
status=0
tree/scripts/gpu-half-hour all all --scale 0.1 > out 2>&1 || status=$?
[ $status = 1 ] || fail "all ended with $status"  # programs that measure nothing
[ -n "$(compgen -G "tree/bench/results/made-up/*.md")" ] || fail "all leaves no report"
grep -qxF SPARSECOLL_CUDA_ARCHITECTURES:STRING=89-real tree/build/gpu-programs/CMakeCache.txt || fail "another device"

# What would be found on this machine alone is found before it travels.
echo '-Wl,-rpath,/nowhere' > with_rpath
packs 2 "does not take libmade.so from beside itself: not found"
export SPARSECOLL_CARRIED=$folder/nowhere
packs 2 "neither packages nor a usr/include"
echo "passed"
