#!/usr/bin/env bash
# Builds the library and its tests for ARM and runs them by qemu-user on several cores' instruction sets.
#
#   bash runtime/tests/run_qemu.sh [BUILD_FOLDER [EVERY [FUZZ_CASES]]]
#
# The variable MACHINE: aarch64, the default, or arm, of 32 bits.
# EVERY: only every so-manieth case of the grids (1: all, the default).
# Needs Debian's g++-aarch64-linux-gnu or g++-arm-linux-gnueabihf, qemu-user and cmake.
set -euo pipefail

machine=${MACHINE:-aarch64}
if [ "$machine" = arm ]; then
  compiler=arm-linux-gnueabihf cores='cortex-a7 cortex-a9'
else
  compiler=aarch64-linux-gnu cores='cortex-a53 cortex-a72 cortex-a76 max'
fi
build=${1:-build/runtime-$machine}
every=${2:-1}
fuzz=${3:-2000}
source=$(cd "$(dirname "$0")/.." && pwd)

for tool in "$compiler-g++" "qemu-$machine" cmake; do
  if ! command -v "$tool" > /dev/null; then
    echo "run_qemu.sh: no $tool. Install it: apt-get install g++-$compiler qemu-user cmake" >&2
    exit 77
  fi
done

cmake -S "$source" -B "$build" -DREBNN_BUILD_TESTS=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$machine" \
  -DCMAKE_C_COMPILER="$compiler-gcc" -DCMAKE_CXX_COMPILER="$compiler-g++" > /dev/null
cmake --build "$build" --target test_sums test_steps test_stem test_integers test_threads test_arguments test_regions fuzz_conv test_image test_text test_model > /dev/null

run() {
  REBNN_ISA=$isa "qemu-$machine" -cpu "$cpu" -L "/usr/$compiler" "$build/tests/$1" "${@:2}"
}

# The list that the library is built from.
isas=$(sed -nE "s/^REBNN_(${machine^^}|ANY)\(([a-z0-9_]+),.*/\2/p" "$source/src/isa_list.h")
for cpu in $cores; do
  for isa in $isas; do
    # The plain C++ is the same instructions on every core.
    if [ "$isa" = portable ] && [ "$cpu" != "${cores%% *}" ]; then continue; fi
    status=0
    run test_arguments > "$build/arguments.txt" || status=$?
    if [ $status = 77 ]; then continue; fi  # not on this core
    echo "--- $cpu, $isa"
    cat "$build/arguments.txt"
    [ $status = 0 ]
    run test_sums "$every"
    run test_steps "$every"
    run test_stem
    run test_integers
    run test_threads
    run test_regions "$((fuzz / 10))" 1
    run fuzz_conv "$fuzz" 1
    run test_text "$every" "$((fuzz / 10))" 1
    run test_image "$((fuzz / 10))" 1
    for model in cifar10-resnet20 blood-cells-nano; do
      run test_model "$source/../rebnn_mm/zoo/$model.onnx" "$((fuzz / 10))" 1
    done
  done
done
