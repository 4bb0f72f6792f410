#!/usr/bin/env bash
# Everything about AArch64 that an x86 machine can check, in one command: builds the runtime for it, runs its checks
# under qemu-user, counts the instructions of ResNet-18, asks llvm-mca for the speed of the inner loops, and compares
# with the limits of lab/tools/board/gates.py.
#
#   bash lab/tools/board/check_aarch64.sh [--quick] [BUILD_FOLDER, default build/board]
#
# --quick: only the inner loops. Exit code 0 if all limits hold, 1 if not, 77 if a package is missing.
# Needs Debian's cmake, g++, g++-aarch64-linux-gnu, qemu-user (7.2, which has plug-ins) and llvm-19; without --quick
# also the project's environment (make setup) and, the first time, PyPI for ONNX Runtime's wheel.
# EVERY: only every so-manieth case of the checks' grids, default 40.
set -euo pipefail

quick=
if [[ ${1:-} == --quick ]]; then
    quick=1
    shift
fi
folder=$(realpath -m "${1:-build/board}")
cd "$(dirname "$0")/../../.."
ort_version=1.27.0 # later ones do not load under qemu 7.2
python=${PYTHON:-python3}
[[ -n ${PYTHON:-} || ! -x .venv/bin/python ]] || python=$PWD/.venv/bin/python
PATH=$PATH:$(dirname "$(command -v "$python" || echo "$python")") # PyPI's CMake

skip() {
    printf '[aarch64] skipped: %s\n' "$*" >&2
    exit 77
}

for tool in cmake cc aarch64-linux-gnu-g++ aarch64-linux-gnu-objdump qemu-aarch64 llvm-mca-19; do
    command -v "$tool" >/dev/null ||
        skip "there is no $tool. Install it: apt-get install cmake g++ g++-aarch64-linux-gnu qemu-user llvm-19"
done
# Some builds of qemu-user have no plug-ins.
[[ $(qemu-aarch64 -help) == *-plugin* ]] || skip "this $(qemu-aarch64 -version | head -n 1) has no plug-ins; 7.2 has."

mkdir -p "$folder"
echo '[aarch64] building the runtime'
cmake -S runtime -B "$folder/runtime" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ >/dev/null
targets=(rebnn)
[[ $quick ]] || targets+=(rebnn_ort)
cmake --build "$folder/runtime" --target "${targets[@]}" >/dev/null
cc -O2 -shared -fPIC -o "$folder/count_instructions.so" lab/tools/board/count_instructions.c
aarch64-linux-gnu-g++ -std=c++17 -O2 -Iruntime/include -o "$folder/count_conv" lab/tools/board/count_conv.cpp \
    "$folder/runtime/librebnn.so" -Wl,-rpath,"$folder/runtime"

if [[ $quick ]]; then
    exec "$python" lab/tools/board/gates.py "$folder" --skip-models
fi

aarch64-linux-gnu-g++ -std=c++17 -O2 -o "$folder/count_model" lab/tools/board/count_model.cpp -ldl
aarch64-linux-gnu-g++ -std=c++17 -O2 -Iruntime/include -o "$folder/count_reader" lab/tools/board/count_reader.cpp \
    "$folder/runtime/librebnn.so" -Wl,-rpath,"$folder/runtime"
if ! ls "$folder"/onnxruntime/libonnxruntime.so.$ort_version >/dev/null 2>&1; then
    echo "[aarch64] fetching ONNX Runtime $ort_version"
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 \
        --python-version 3.11 --dest "$wheels" "onnxruntime==$ort_version" ||
        skip "ONNX Runtime's wheel for AArch64 could not be fetched from PyPI."
    mkdir -p "$folder/onnxruntime"
    "$python" -m zipfile -e "$wheels"/onnxruntime-*.whl "$wheels/unpacked"
    cp "$wheels/unpacked/onnxruntime/capi/libonnxruntime.so.$ort_version" "$folder/onnxruntime/"
fi
echo '[aarch64] writing the networks'
"$python" lab/tools/board/make_models.py "$folder/models" >/dev/null ||
    skip 'the networks could not be exported; run make setup first.'
echo '[aarch64] checking results under qemu'
bash runtime/tests/run_qemu.sh "$folder/tests" "${EVERY:-40}" 500
"$python" lab/tools/board/gates.py "$folder"
