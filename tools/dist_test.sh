#!/usr/bin/env bash
# Evaluate a checkpoint on several GPUs of one or more machines, by torchrun.
#   bash tools/dist_test.sh CONFIG CHECKPOINT GPUS_PER_NODE [arguments of tools/test.py]
# Environment: NNODES, NODE_RANK, MASTER_ADDR, PORT for more than one machine or job; PYTHON for another interpreter.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: bash $0 CONFIG CHECKPOINT GPUS_PER_NODE [arguments of tools/test.py]" >&2
    exit 2
fi
config=$1
checkpoint=$2
gpus=$3
shift 3

exec "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$gpus" \
    "$(dirname "$0")/test.py" "$config" "$checkpoint" --launcher pytorch "$@"
