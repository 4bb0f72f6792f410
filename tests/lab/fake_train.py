"""Stands in for tools/train.py: no model, the same files, and it resumes from its last checkpoint.

python fake_train.py CONFIG --work-dir WORK_DIR --resume
"""

import json
import runpy
import sys
import time
from pathlib import Path

# A written config is plain assignments; mmengine takes seconds to import.
cfg = runpy.run_path(sys.argv[1])
work_dir = Path(sys.argv[3])
pointer = work_dir / 'last_checkpoint'
done = int(Path(pointer.read_text()).stem.removeprefix('epoch_')) if pointer.is_file() else 0
if cfg['load_from'] and not Path(cfg['load_from']).is_file():
    sys.exit(f'no checkpoint {cfg["load_from"]}')
starts = len(list(work_dir.glob('part*')))
scalars = work_dir / f'part{starts}' / 'vis_data' / 'scalars.json'
scalars.parent.mkdir(parents=True)
if cfg['load_from'] and not done and not cfg.get('forgets_start'):
    (work_dir / f'part{starts}' / 'part.log').write_text(f'Load checkpoint from {cfg["load_from"]}\n')
for epoch in range(done + 1, cfg['train_cfg']['max_epochs'] + 1):
    if epoch == cfg.get('fails_in'):
        print('Traceback (most recent call last):\nValueError: the loss is not a number', file=sys.stderr)
        sys.exit(1)
    time.sleep(cfg['seconds'])
    with scalars.open('a') as file:
        file.write(json.dumps(dict(lr=0.1, loss=1 / epoch, step=10 * epoch, epoch=epoch)) + '\n')
        if epoch % 2 == 0:
            file.write(json.dumps({'accuracy/top1': 50.0 + cfg['randomness']['seed'] + epoch, 'step': epoch}) + '\n')
    checkpoint = work_dir / f'epoch_{epoch}.pth'
    checkpoint.write_bytes(b'weights')
    pointer.write_text(str(checkpoint))
