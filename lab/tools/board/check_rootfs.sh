#!/usr/bin/env bash
# Installs the board wheel by pip in an arm64 Debian and runs packed models there, under qemu-user, and here; both must
# find the same.
#
#   bash lab/tools/board/check_rootfs.sh MODEL.onnx IMAGE [MODEL.onnx IMAGE ...]
#
# The Debian is made in build/board/rootfs the first time (debootstrap, Debian 12, 0.5 GB) and used again, as are the
# wheels from PyPI in build/board/wheels: from then on nothing is fetched. Needs root, Debian's debootstrap,
# qemu-user-static, g++-aarch64-linux-gnu and cmake, a kernel with binfmt_misc, and the project's environment for the
# comparison. FOLDER: another place than build/board. ORT: the version of ONNX Runtime there, default 1.27.0 (later ones
# do not load under qemu 7.2). Exit code 0 if all agree, 1 if not, 77 if something is missing.
set -euo pipefail

[[ $# -ge 2 && $(($# % 2)) == 0 ]] || {
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
files=()
for file in "$@"; do
    [[ -f $file ]] || {
        echo "[rootfs] there is no file $file." >&2
        exit 2
    }
    files+=("$(realpath "$file")")
done
cd "$(dirname "$0")/../../.."
folder=$(realpath -m "${FOLDER:-build/board}")
root=$folder/rootfs
ort=${ORT:-1.27.0}
python=${PYTHON:-$PWD/.venv/bin/python}
interpreter=/usr/bin/qemu-aarch64-static

skip() {
    printf '[rootfs] skipped: %s\n' "$*" >&2
    exit 77
}

[[ $(id -u) == 0 ]] || skip 'a root file system of another processor can be entered by root only.'
for tool in debootstrap "$interpreter" aarch64-linux-gnu-g++ "$python"; do
    command -v "$tool" >/dev/null ||
        skip "there is no $tool: apt-get install debootstrap qemu-user-static g++-aarch64-linux-gnu cmake; make setup."
done

# The kernel starts AArch64's programs by qemu while this runs; the flag F keeps qemu open, so that the root file
# system needs no copy.
registry=/proc/sys/fs/binfmt_misc
[[ -e $registry/register ]] || mount -t binfmt_misc binfmt_misc "$registry" 2>/dev/null ||
    skip 'this kernel has no binfmt_misc.'
registered= mounted=()
cleanup() {
    for place in "${mounted[@]}"; do umount "$place"; done
    [[ ! $registered ]] || echo -1 >"$registry/rebnn-board"
}
trap cleanup EXIT
if ! grep -qsE '^flags:.*F' "$registry"/qemu-aarch64 "$registry"/rebnn-board; then
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    echo ":rebnn-board:M::$magic:$mask:$interpreter:F" >"$registry/register"
    registered=1
fi

if [[ ! -e $root/.complete ]]; then
    echo '[rootfs] making an arm64 Debian 12'
    mkdir -p "$root"
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,python3-pip,python3-venv bookworm "$root" \
        http://deb.debian.org/debian >"$folder/debootstrap.log"
    chroot "$root" /debootstrap/debootstrap --second-stage >>"$folder/debootstrap.log"
    touch "$root/.complete"
fi
# ONNX Runtime asks both what processor it is on.
for kind in proc sysfs; do
    place=$root/${kind%fs}
    mountpoint -q "$place" || { mount -t "$kind" -o ro "$kind" "$place" && mounted+=("$place"); }
done

echo '[rootfs] building and installing the wheel'
wheels=$folder/wheels
rm -f "$wheels"/rebnn_runtime-*.whl
wheel=$(bash tools/build_board_wheel.sh aarch64 "$wheels")
if ! ls "$wheels/onnxruntime-$ort"-*.whl >/dev/null 2>&1; then
    "$python" -m pip download --quiet --only-binary=:all: --platform manylinux_2_28_aarch64 \
        --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 --python-version 3.11 --dest "$wheels" \
        numpy pillow "onnxruntime==$ort" || skip "the wheels for AArch64 could not be fetched from PyPI."
fi
rm -rf "$root/opt/board"
mkdir -p "$root/opt/board"
cp -r "$wheels" "$root/opt/board/wheels"
inside() { chroot "$root" /usr/bin/env -i PATH=/opt/board/venv/bin:/usr/bin:/bin LANG=C.UTF-8 "$@"; }
inside python3 -m venv /opt/board/venv
inside pip install --quiet --no-index --find-links /opt/board/wheels "onnxruntime==$ort" \
    "/opt/board/wheels/$(basename "$wheel")"
inside pip list --format=freeze
echo "$(inside uname -m), $(inside python3 --version), Debian $(cat "$root/etc/debian_version"), $($interpreter -version | head -n 1)"

failed=0
for ((i = 0; i < ${#files[@]}; i += 2)); do
    model=${files[i]} image=${files[i + 1]}
    cp "$model" "$root/opt/board/model.onnx"
    cp "$image" "$root/opt/board/$(basename "$image")"
    echo "[rootfs] rebnn-run $(basename "$model") $(basename "$image")"
    inside rebnn-run /opt/board/model.onnx "/opt/board/$(basename "$image")"
    inside rebnn-run --json /opt/board/model.onnx "/opt/board/$(basename "$image")" >"$folder/there.json"
    "$python" -m rebnn_mm.deploy.run --json "$model" "$image" >"$folder/here.json"
    "$python" lab/tools/board/same_answers.py "$folder/here.json" "$folder/there.json" || failed=1
done
exit "$failed"
