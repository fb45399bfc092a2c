#!/usr/bin/env bash
# Which devices a build is for (cmake/cuda.cmake): the caller's wish, this machine's GPUs, or one architecture. Driver and
# compiler are made up.
# usage: architectures.sh ROOT CMAKE
set -euo pipefail
root=$1 cmake=$2
unset CUDAARCHS
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/bin"
cat > "$folder/ask.cmake" << END
cmake_minimum_required(VERSION 3.22)
include($root/cmake/cuda.cmake)
sparsecoll_choose_architectures()
file(WRITE $folder/chosen "\${CMAKE_CUDA_ARCHITECTURES}")
sparsecoll_share_ptx(shared \${CMAKE_CUDA_ARCHITECTURES})
file(WRITE $folder/shared "\${shared}")
END
# compiler NUMBERS...: the devices that nvcc knows.
compiler() {
  printf '#!/bin/sh\nprintf "sm_%%s\\n" %s\n' "$*" > "$folder/nvcc"
  chmod +x "$folder/nvcc"
}
compiler 75 80 86 89 90 100 103
# driver TEXT [STATUS]: what nvidia-smi says of the GPUs' compute capabilities.
driver() {
  printf '#!/bin/sh\nprintf "%s"\nexit %s\n' "$1" "${2:-0}" > "$folder/bin/nvidia-smi"
  chmod +x "$folder/bin/nvidia-smi"
}
# expect WHAT ARCHITECTURES OPTIONS...: OPTIONS are cmake's, or settings of the environment.
failed=0
expect() {
  local what=$1 wanted=$2 option environment=() options=()
  shift 2
  for option in "$@"; do
    if [[ $option == -D* ]]; then options+=("$option"); else environment+=("$option"); fi
  done
  env PATH="$folder/bin:$PATH" "${environment[@]}" \
    "$cmake" -DCUDAToolkit_NVCC_EXECUTABLE="$folder/nvcc" "${options[@]}" -P "$folder/ask.cmake" > "$folder/said" 2>&1
  if [ "$(cat "$folder/chosen")" != "$wanted" ]; then
    echo "FAIL: $what: $(cat "$folder/chosen"), not $wanted"
    failed=1
  fi
  grep -qF "compiled for $wanted;" "$folder/said" || { echo "FAIL: $what: is not told of"; failed=1; }
}
# shares WHAT WANTED: nvcc's option for what was chosen last, or that there is none.
shares() {
  if [ "$(cat "$folder/shared")" != "${2:+--generate-code=$2}" ]; then
    echo "FAIL: $1: $(cat "$folder/shared"), not ${2:+--generate-code=$2}"
    failed=1
  fi
}

all="80-real;86-real;89-real;90-real;100-real;100-virtual"
driver "" 9  # a machine of this test's may have a GPU: so no driver is one that fails
expect "no GPU" 90
driver 'NVIDIA-SMI has failed because it could not communicate with the driver. Version 9.0 \n' 9
expect "a driver that fails and talks" 90
driver '9.0\n'
expect "one GPU" 90-real
driver '10.3\n8.0\n10.3\n'
expect "three GPUs of two kinds" "103-real;80-real"
shares "machine code of both, no PTX" "arch=compute_80,code=[sm_103,sm_80]"
driver '6.1\n9.0\n'
expect "a GPU that the compiler does not know" 90-real
driver '1.0\n'
expect "a GPU whose number begins another's" 90
driver '9.0\n'
expect "a wish in the environment" "80-real;100" CUDAARCHS="80-real;100"
shares "PTX of the oldest goes along where a newer one's was asked for" "arch=compute_80,code=[sm_80,sm_100,compute_80]"
expect "a wish of the build's" 86 CUDAARCHS=80 -DSPARSECOLL_CUDA_ARCHITECTURES=86
shares "one architecture is CMake's" ""
expect "a wish by CMake's own name" "80;86" CUDAARCHS=90 -DCMAKE_CUDA_ARCHITECTURES="80;86"
expect "a default of CMake's" 90-real -DCMAKE_CUDA_ARCHITECTURES=75
expect "a device's own features" "80;90a" CUDAARCHS="80;90a"
shares "a device's own features are CMake's" ""
expect "all" "$all" -DSPARSECOLL_CUDA_ARCHITECTURES=supported
shares "all" "arch=compute_80,code=[sm_80,sm_86,sm_89,sm_90,sm_100,compute_80]"
compiler 75 80 86 89 90
expect "all that an older compiler knows" "80-real;86-real;89-real;90-real;90-virtual" \
  -DSPARSECOLL_CUDA_ARCHITECTURES=supported
[ $failed != 0 ] || echo passed
exit $failed
