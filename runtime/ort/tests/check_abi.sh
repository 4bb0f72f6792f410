#!/usr/bin/env bash
# Compares runtime/ort/ort_abi.h with a real header of ONNX Runtime. Without a folder it fetches Debian 13's package
# libonnxruntime-dev, whose signature apt checks; nothing is installed, and nothing of it is kept.
#
#     bash runtime/ort/tests/check_abi.sh [folder that holds onnxruntime_c_api.h]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
header=${1:-}

if [[ -z $header ]]; then
    temporary=$(mktemp -d)
    trap 'rm -rf "$temporary"' EXIT
    mkdir -p "$temporary"/lists/partial "$temporary"/cache/archives/partial
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [arch=amd64 signed-by=$keyring] http://deb.debian.org/debian trixie main" >"$temporary/sources.list"
    apt=(apt-get -qq -o "Dir::Etc::sourcelist=$temporary/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$temporary/lists" -o "Dir::Cache=$temporary/cache" -o APT::Sandbox::User=root
        -o APT::Architecture=amd64)
    "${apt[@]}" update
    (cd "$temporary" && "${apt[@]}" download libonnxruntime-dev && dpkg-deb -x libonnxruntime-dev_*.deb unpacked)
    header=$temporary/unpacked/usr/include/onnxruntime
fi
[[ -f $header/onnxruntime_c_api.h ]] || {
    echo "check_abi: no onnxruntime_c_api.h in $header." >&2
    exit 1
}

"${CXX:-g++}" -std=c++17 -Wno-ignored-attributes -fsyntax-only -I "$here/.." -isystem "$header" \
    "$here/check_abi.cpp"
echo "ort_abi.h agrees with version $(sed -n 's/^#define ORT_API_VERSION //p' "$header/onnxruntime_c_api.h") of the interface"
