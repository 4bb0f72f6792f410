#!/usr/bin/env bash
# Makes the light wheel, for boards and servers: what runs packed models, compiled, and the zoo, without torch and without
# the rest of rebnn_mm.
#
#     bash tools/build_board_wheel.sh [aarch64 | x86_64 | windows | macos, default: as this machine] [folder, default dist]
#
# The first two are Linux and need a C++ compiler for that processor (Debian: apt-get install g++, or
# g++-aarch64-linux-gnu); Windows on x86-64 and macOS on Apple silicon need PyPI's ziglang. All need, from pip,
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

prefix=${CROSS:-}
tools=()
target=
end=so
case $machine in
aarch64 | x86_64)
    [[ $machine == "$(uname -m)" ]] || prefix=${CROSS:-$machine-linux-gnu-}
    tools=("${prefix}gcc" "${prefix}g++" "${prefix}objdump")
    system=Linux
    ;;
windows) system=Windows target=x86_64-windows-gnu end=dll platform=win_amd64 ;;
macos) system=Darwin target=aarch64-macos.11.0 end=dylib platform=macosx_11_0_arm64 ;;
*) stop "the processor or system must be aarch64, x86_64, windows or macos, not $machine." ;;
esac
missing=()
for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
wanted=()
cmake --version 2>/dev/null | "$python" -c '
import re, sys
found = re.search(r"version (\d+)\.(\d+)", sys.stdin.read())
sys.exit(not found or tuple(map(int, found.groups())) < (3, 18))' || wanted+=("'cmake>=3.18'")
"$python" -c 'import setuptools.command.bdist_wheel' 2>/dev/null || wanted+=("'setuptools>=70.1'")
[[ -z $target ]] || "$python" -c 'import ziglang' 2>/dev/null || wanted+=(ziglang)
if [[ ${#missing[@]} -gt 0 ]]; then
    package=g++
    [[ $machine == "$(uname -m)" ]] || package=g++-${machine/_/-}-linux-gnu
    stop "needs ${missing[*]}, a C++ compiler for $machine. Install it (Debian: apt-get install $package)."
fi
[[ ${#wanted[@]} -eq 0 ]] || stop "needs ${wanted[*]} for $python. Run: $python -m pip install --upgrade ${wanted[*]}"

build=build/board_$machine
archivers=()
if [[ -n $target ]]; then
    compilers=("$python;-m;ziglang;cc;-s;-target;$target" "$python;-m;ziglang;c++;-s;-target;$target")
    # The system's may write archives that zig's linker for macOS does not read. CMake keeps those it began with.
    [[ -x $build/ar ]] || rm -rf "$build"
    mkdir -p "$build"
    for tool in ar ranlib; do
        printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$python" "$tool" >"$build/$tool"
        chmod +x "$build/$tool"
        archivers+=("-DCMAKE_${tool^^}=$PWD/$build/$tool")
    done
else
    compilers=("${prefix}gcc" "${prefix}g++")
fi
# A library of macOS holds its own name, which would otherwise be its path here.
cmake -S runtime -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME="$system" \
    -DCMAKE_INSTALL_NAME_DIR=@rpath -DCMAKE_BUILD_WITH_INSTALL_NAME_DIR=ON \
    -DCMAKE_C_COMPILER="${compilers[0]}" -DCMAKE_CXX_COMPILER="${compilers[1]}" "${archivers[@]}" >/dev/null
cmake --build "$build" --target rebnn rebnn_ort --parallel "${MAX_JOBS:-$(nproc)}" >/dev/null

if [[ $system == Linux ]]; then
    # The oldest C library that has what the libraries ask for; below 2.17 there is no name for it.
    glibc=$("${prefix}objdump" -T "$build/librebnn.so" "$build/ort/librebnn_ort.so" |
        grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | cat - <(echo 2.17) | sort -uV | tail -n 1)
    platform=manylinux_${glibc/./_}_$machine
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
package=$stage/rebnn_mm
mkdir -p "$package/deploy/lib"
# Not the full package's, which imports what is not here if the board happens to have torch.
cp tools/board_wheel/rebnn_mm_init.py "$package/__init__.py"
cp rebnn_mm/version.py rebnn_mm/native_library.py rebnn_mm/errors.py "$package/"
cp rebnn_mm/deploy/*.py "$package/deploy/"
cp -r rebnn_mm/zoo "$package/"
cp "$build/librebnn.$end" "$build/ort/librebnn_ort.$end" "$package/deploy/lib/"
cp LICENSE rebnn_command.py tools/board_wheel/setup.py "$stage/"

if ! (cd "$stage" && "$python" setup.py --quiet bdist_wheel --plat-name "$platform" --dist-dir wheel) \
    >"$stage/log" 2>&1; then
    cat "$stage/log" >&2
    stop 'the wheel could not be made, see above.'
fi
mkdir -p "$output"
mv "$stage"/wheel/*.whl "$output/"
printf '%s\n' "$output"/rebnn_runtime-*-"$platform".whl
