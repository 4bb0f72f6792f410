#!/usr/bin/env bash
# Train on a Slurm cluster; each task is one GPU.
#   bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [arguments of tools/train.py]
# Environment: GPUS (8, in all), GPUS_PER_NODE (8), CPUS_PER_TASK (5), SRUN_ARGS, PYTHON.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: bash $0 PARTITION JOB_NAME CONFIG WORK_DIR [arguments of tools/train.py]" >&2
    exit 2
fi
partition=$1
job_name=$2
config=$3
work_dir=$4
shift 4

# SRUN_ARGS holds several arguments, so it is split at blanks on purpose
# shellcheck disable=SC2086
exec srun -p "$partition" \
    --job-name="$job_name" \
    --gres="gpu:${GPUS_PER_NODE:-8}" \
    --ntasks="${GPUS:-8}" \
    --ntasks-per-node="${GPUS_PER_NODE:-8}" \
    --cpus-per-task="${CPUS_PER_TASK:-5}" \
    --kill-on-bad-exit=1 \
    ${SRUN_ARGS:-} \
    "${PYTHON:-python}" -u "$(dirname "$0")/train.py" "$config" --work-dir "$work_dir" --launcher slurm "$@"
