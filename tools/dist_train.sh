#!/usr/bin/env bash
# Train on several GPUs of one or more machines, by torchrun.
#   bash tools/dist_train.sh CONFIG GPUS_PER_NODE [arguments of tools/train.py]
# Environment: NNODES, NODE_RANK, MASTER_ADDR, PORT for more than one machine or job; PYTHON for another interpreter.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG GPUS_PER_NODE [arguments of tools/train.py]" >&2
    exit 2
fi
config=$1
gpus=$2
shift 2

exec "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$gpus" \
    "$(dirname "$0")/train.py" "$config" --launcher pytorch "$@"
