#!/usr/bin/env bash
# Makes the light wheel, for boards and servers: what runs packed models, compiled, and the zoo, without torch and without
# the rest of rebnn_mm.
#
#     bash tools/build_board_wheel.sh [aarch64 | x86_64, default: as this machine] [folder for the wheel, default dist]
#
# Needs a C++ compiler for that processor (Debian: apt-get install g++, or g++-aarch64-linux-gnu) and, from pip,
# setuptools 70.1 and CMake 3.18; looks for all of them before it compiles. CROSS names another prefix of the compiler's
# tools. Nothing of Python is compiled, so one wheel is good for every Python 3 of the board.
set -euo pipefail

machine=${1:-$(uname -m)}
output=$(realpath -m "${2:-dist}")
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[[ -n ${PYTHON:-} || ! -x .venv/bin/python ]] || python=$PWD/.venv/bin/python
# The set-up puts PyPI's CMake next to Python; the system's comes first.
PATH=$PATH:$(dirname "$(command -v "$python" || echo "$python")")

stop() {
    printf '[board wheel] %s\n' "$*" >&2
    exit 1
}

[[ $machine == aarch64 || $machine == x86_64 ]] || stop "the processor must be aarch64 or x86_64, not $machine."
if [[ $machine == "$(uname -m)" ]]; then
    prefix=${CROSS:-}
else
    prefix=${CROSS:-$machine-linux-gnu-}
fi
missing=()
for tool in gcc g++ objdump; do
    command -v "$prefix$tool" >/dev/null || missing+=("$prefix$tool")
done
wanted=()
cmake --version 2>/dev/null | "$python" -c '
import re, sys
found = re.search(r"version (\d+)\.(\d+)", sys.stdin.read())
sys.exit(not found or tuple(map(int, found.groups())) < (3, 18))' || wanted+=("'cmake>=3.18'")
"$python" -c 'import setuptools.command.bdist_wheel' 2>/dev/null || wanted+=("'setuptools>=70.1'")
if [[ ${#missing[@]} -gt 0 ]]; then
    package=g++
    [[ $machine == "$(uname -m)" ]] || package=g++-${machine/_/-}-linux-gnu
    stop "needs ${missing[*]}, a C++ compiler for $machine. Install it (Debian: apt-get install $package)."
fi
[[ ${#wanted[@]} -eq 0 ]] || stop "needs ${wanted[*]} for $python. Run: $python -m pip install --upgrade ${wanted[*]}"

build=build/board_$machine
cmake -S runtime -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$machine" \
    -DCMAKE_C_COMPILER="${prefix}gcc" -DCMAKE_CXX_COMPILER="${prefix}g++" >/dev/null
cmake --build "$build" --parallel "${MAX_JOBS:-$(nproc)}" >/dev/null

# The oldest C library that has what the libraries ask for; below 2.17 there is no name for it.
glibc=$("${prefix}objdump" -T "$build/librebnn.so" "$build/ort/librebnn_ort.so" |
    grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | cat - <(echo 2.17) | sort -uV | tail -n 1)
platform=manylinux_${glibc/./_}_$machine

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
package=$stage/rebnn_mm
mkdir -p "$package/deploy/lib"
# Not the full package's, which imports what is not here if the board happens to have torch.
cp tools/board_wheel/rebnn_mm_init.py "$package/__init__.py"
cp rebnn_mm/version.py rebnn_mm/native_library.py rebnn_mm/errors.py "$package/"
cp rebnn_mm/deploy/*.py "$package/deploy/"
cp -r rebnn_mm/zoo "$package/"
cp "$build/librebnn.so" "$build/ort/librebnn_ort.so" "$package/deploy/lib/"
cp LICENSE rebnn_command.py tools/board_wheel/setup.py "$stage/"

if ! (cd "$stage" && "$python" setup.py --quiet bdist_wheel --plat-name "$platform" --dist-dir wheel) \
    >"$stage/log" 2>&1; then
    cat "$stage/log" >&2
    stop 'the wheel could not be made, see above.'
fi
mkdir -p "$output"
mv "$stage"/wheel/*.whl "$output/"
printf '%s\n' "$output"/rebnn_runtime-*-"$platform".whl
