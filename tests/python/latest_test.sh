#!/usr/bin/env bash
# The Python tests and the trainers with the PyTorch that the package index has now. Takes a quarter of an hour and
# gigabytes.
# usage: latest_test.sh FOLDER   what is built and installed stays there
#   PYTHON=PROGRAM   its PyTorch, instead of one that is installed into FOLDER/venv
#   INDEX=URL        where pip looks, for example https://download.pytorch.org/whl/cpu: without a CUDA toolkit here
#                    CMake refuses a PyTorch that was built for GPUs
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(realpath -m "$1")
mkdir -p "$folder"
if [ -z "${PYTHON:-}" ]; then
  PYTHON=$folder/venv/bin/python
  [ -x "$PYTHON" ] || python3 -m venv "$folder/venv"
  "$PYTHON" -m pip install -q --upgrade ${INDEX:+--index-url "$INDEX"} torch numpy
fi
"$PYTHON" -c 'import torch; print("PyTorch", torch.__version__)'
prefix=$("$PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')

# Trainers are compiled without device code: whichever GPU this PyTorch was built for. What its libraries need of others
# is theirs to find, once they are loaded.
cd "$root"
TORCH_CUDA_ARCH_LIST=8.0 cmake --preset release -B "$folder/tree" -DCMAKE_PREFIX_PATH="$prefix" \
  -DSPARSECOLL_PYTHON="$PYTHON" -DSPARSECOLL_WITH_CUDA=OFF \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,--unresolved-symbols=ignore-in-shared-libs > "$folder/configured.txt"
cmake --build "$folder/tree" -j "${JOBS:-2}" --target sparsecoll cnn lstm sentiment ncf speech torch_test
ctest --test-dir "$folder/tree" -R '^(python\.|torch_test)' --output-on-failure

# An epoch each, of synthetic data, or its first steps.
train() { "$folder/tree/bin/sparsecoll-$1" "${@:2}" --ranks 2 --epochs 1 --max-steps 40 --preset dense,topka; }
train cnn --data synthetic --train-limit 512 --test-limit 128
for trainer in lstm sentiment ncf speech; do train $trainer; done
