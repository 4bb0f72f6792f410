#!/usr/bin/env bash
# Compiles librebnn for WebAssembly: rebnn.wasm, which imports nothing, and rebnn.js, by which browsers and node use it.
#
#     bash tools/build_wasm.sh [folder, default dist/wasm]
#
# Needs, from pip, PyPI's ziglang and CMake 3.18; looks for both before it compiles. REBNN_TESTS=1 compiles the test
# programs as well, for node's WASI, into build/wasm/tests.
set -euo pipefail

output=$(realpath -m "${1:-dist/wasm}")
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[[ -n ${PYTHON:-} || ! -x .venv/bin/python ]] || python=$PWD/.venv/bin/python
# PyPI's CMake lies next to Python; the system's comes first.
PATH=$PATH:$(dirname "$(command -v "$python" || echo "$python")")

wanted=()
"$python" -c 'import ziglang' 2>/dev/null || wanted+=(ziglang)
command -v cmake >/dev/null || wanted+=("'cmake>=3.18'")
if [[ ${#wanted[@]} -gt 0 ]]; then
    printf '[wasm] needs %s for %s. Run: %s -m pip install %s\n' "${wanted[*]}" "$python" "$python" "${wanted[*]}" >&2
    exit 1
fi

build=build/wasm
targets=(rebnn_wasm)
[[ -z ${REBNN_TESTS:-} ]] || targets=(all)
# With another compiler CMake forgets the other settings.
[[ $(cat "$build/python" 2>/dev/null) == "$python" ]] || rm -rf "$build"
mkdir -p "$build"
printf '%s\n' "$python" >"$build/python"
# CMake's own trials are not linked, because that would compile the C++ library first.
cmake -S runtime -B "$build" -DCMAKE_BUILD_TYPE=MinSizeRel -DCMAKE_SYSTEM_NAME=WASI \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DREBNN_BUILD_TESTS="${REBNN_TESTS:-OFF}" \
    -DCMAKE_C_COMPILER="$python;-m;ziglang;cc;-target;wasm32-wasi" \
    -DCMAKE_CXX_COMPILER="$python;-m;ziglang;c++;-target;wasm32-wasi" >/dev/null
cmake --build "$build" --target "${targets[@]}" --parallel "${MAX_JOBS:-$(nproc)}" >/dev/null
mkdir -p "$output"
cp "$build/rebnn.wasm" runtime/wasm/rebnn.js "$output/"
printf '%s\n' "$output/rebnn.wasm"
