#!/usr/bin/env bash
# Builds librebnn_ort with AddressSanitizer and UndefinedBehaviorSanitizer and starts a fuzz_*.py under them.
#
#     bash runtime/ort/tests/run_fuzz.sh PYTHON BUILD_FOLDER fuzz_models.py [--count N] [--seed S]
#
# The sanitizers' message, and in BUILD_FOLDER/case the number of the case, say what to look at after a failure.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
python=$1
build=$2
program=$3
shift 3

cmake -S "$root/runtime" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DREBNN_SANITIZE=address,undefined >/dev/null
cmake --build "$build" --target rebnn_ort --parallel "${MAX_JOBS:-2}" >/dev/null

# Python is not built with the sanitizer, so it has to be there first. libstdc++ with it: the sanitizer looks up how
# exceptions are thrown when it starts. A file may ask for any amount of memory; more than this is refused.
compiler=${CXX:-g++}
export LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512
export UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc
export REBNN_ORT_LIBRARY=$build/ort/librebnn_ort.so
"$python" "$root/runtime/ort/tests/$program" --trace "$build/case" "$@"
