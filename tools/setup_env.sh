#!/usr/bin/env bash
# Makes the virtual environment in which the tests and the demo run, with the versions of requirements.txt.
#
#     bash tools/setup_env.sh [folder of the environment, default .venv] [python to make it from]
#
# Can be run again at any time: what is there already is kept, what an interruption left half done is repaired.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
base_python=${2:-}
python=$venv/bin/python

say() { printf '\n[setup] %s\n' "$*"; }

stop() {
    printf '\n[setup] %s\n' "$*" >&2
    exit 1
}

is_supported() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${base_python:-python3 python3.12 python3.11 python3.10}; do
        if is_supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

# The compiler and the headers are asked for first: mmcv would fail on them only after a download of gigabytes.
check_machine() {
    local wanted=${base_python:-python3} found
    base_python=$(find_python)
    if [[ -z $base_python ]]; then
        found=$("$wanted" --version 2>/dev/null || echo 'no Python')
        stop "needs Python 3.10, 3.11 or 3.12, and $wanted is $found. Install one (Debian: apt-get install python3" \
            'python3-venv python3-dev) and name it if need be: make setup BASE_PYTHON=/path/to/python.'
    fi
    "$base_python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "$base_python cannot make environments. Install its venv module (Debian: apt-get install python3-venv)."
    command -v "${CXX:-g++}" >/dev/null ||
        stop "needs a C++ compiler for the ops of mmcv, and ${CXX:-g++} is not there." \
            'Install one (Debian: apt-get install g++) or set CXX.'
    "$base_python" -c 'import sysconfig; open(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        stop "$base_python lacks the header Python.h, which the ops of mmcv need." \
            'Install it (Debian: apt-get install python3-dev).'
}

# Every call is held to the tested versions, also where a package asks for a library without saying which.
install() { "$python" -m pip install --disable-pip-version-check --constraint requirements.txt "$@"; }

pins() { grep -E "^($1)=" requirements.txt; }

# install_checked <wheel> 'code that must run' <arguments of pip>
# pip takes for complete what an interruption left half done, and its cache may hold an mmcv that was built without ops.
# Such a wheel has to leave the cache, or pip would serve it again, here and in the next environment.
install_checked() {
    local wheel=$1 check=$2
    shift 2
    install "$@"
    if ! "$python" -c "$check"; then
        say 'installed, but it does not import (see above): installing it once more'
        "$python" -m pip cache remove "$wheel" >/dev/null 2>&1 || true
        install --force-reinstall --no-deps "$@"
        "$python" -c "$check" || stop "it still does not import (see above). Delete $venv and run this again."
    fi
}

make_environment() {
    if ! { is_supported "$python" && "$python" -m pip --version >/dev/null 2>&1; }; then
        [[ ! -e $venv || -e $venv/pyvenv.cfg || -z $(ls -A "$venv") ]] ||
            stop "$venv holds other things than a virtual environment." \
                'Name another folder: make setup VENV=/path/to/new.'
        "$base_python" -m venv --clear "$venv"
    fi
    install --quiet --upgrade pip setuptools wheel cmake ninja packaging
}

# precompile_torch <folder> <flags of the compiler>
# Reads the headers of torch once for all 78 files of mmcv. GCC alone: it goes back to the plain header where a file's
# options are other ones, at which Clang stops. Fails, and nothing is lost but time, if the 430 MB cannot be written.
precompile_torch() {
    local header=$1/torch_types.h cxx=${CXX:-c++} include
    LC_ALL=C "$cxx" -v 2>&1 | grep -q '^gcc version' || return
    include=$("$python" -c 'import torch; print(torch.__path__[0] + "/include")') || return
    echo '#include <torch/types.h>' >"$header"
    # shellcheck disable=SC2086
    "$cxx" $2 -fPIC -std=c++17 "-I$include" "-I$include/torch/csrc/api/include" \
        -w -x c++-header "$header" -o "$header.gch" || { rm -f "$header.gch" && return 1; }
}

install_mmcv() {
    # mmcv compiles for CUDA as soon as torch sees a GPU, and stops if there is no nvcc for it.
    local lacks_nvcc='import torch; from torch.utils.cpp_extension import CUDA_HOME
raise SystemExit(not (torch.cuda.is_available() and CUDA_HOME is None))'
    if "$python" -c "$lacks_nvcc" 2>/dev/null; then
        say 'a GPU, but no CUDA toolkit (nvcc): building mmcv for the CPU only, see docs/install.md'
        export CUDA_VISIBLE_DEVICES=
    fi
    # Debug information, which Python's own flags ask for, is most of the work. CFLAGS takes the place of those flags.
    local flags headers
    flags="$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("CFLAGS"))') ${CFLAGS:-} -g0"
    headers=$(mktemp -d)
    trap "rm -rf '$headers'" EXIT
    if precompile_torch "$headers" "$flags"; then
        flags+=" -include $headers/torch_types.h"
    fi
    # Without isolation: in a build environment of its own mmcv finds no torch and silently builds no ops. Not quiet:
    # pip then says every minute that the build goes on.
    CFLAGS=$flags MAX_JOBS=${MAX_JOBS:-$(nproc)} install_checked onedl_mmcv 'from mmcv.ops import nms' \
        --no-build-isolation --no-deps "$(pins onedl-mmcv)"
    rm -rf "$headers"
}

# What runs the files of tools/export.py --format lce, to compare them. It needs NumPy 1, so it gets a folder of its own;
# there are wheels for x86-64 only. Nothing else depends on it.
install_engine() {
    [[ $(uname -m) == x86_64 && ! -d $venv/lce/larq_compute_engine ]] || return 0
    "$python" -m pip install --disable-pip-version-check --quiet --no-deps --target "$venv/lce" \
        larq-compute-engine==0.16.0 numpy==1.26.4 flatbuffers==25.12.19 tqdm==4.70.1 ||
        say 'larq compute engine cannot be installed: files for it will be written, but not run here'
}

check_machine
say "1/7 environment in $venv, from $("$base_python" --version)"
make_environment

say '2/7 torch and torchvision: 4.8 GB with CUDA libraries, about 3 minutes the first time'
# shellcheck disable=SC2046
install_checked torch 'import torch, torchvision; torch.ops.torchvision.nms' --quiet $(pins 'torch|torchvision')

say '3/7 mmengine, and what mmcv needs to be imported'
# shellcheck disable=SC2046
install --quiet $(pins 'numpy|onedl-mmengine|opencv-python-headless')

say '4/7 mmcv: its ops are compiled, 2 to 7 minutes on 2 cores the first time; pip keeps the result'
install_mmcv

say '5/7 mmdet, mmpretrain, rebnn_mm with its compiled runtime, and its development tools: about 2 minutes'
install -qq --no-build-isolation --requirement requirements.txt --editable '.[dev]'
# Both OpenCV packages are in now and share one folder. Whichever is written last is the one that is imported, and only
# the headless one imports on a machine without libGL.
install --quiet --force-reinstall --no-deps "$(pins opencv-python-headless)"

say '6/7 larq compute engine, to compare the files that are written for it'
install_engine

say '7/7 check'
"$python" tools/misc/check_env.py ||
    stop "the environment has the problems above. If the fixes do not help, delete $venv and run this again."
say "ready: $python"
