"""tools/train.py and tools/test.py on a GLUE config, from a tiny encoder and generated rows."""

import pickle
import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip('transformers')

from rebnn_mm.models.language import TextClassifier, save_pretrained
from tests.datasets.glue_folder import write_glue
from tests.models.language.tiny import tiny_encoder

ROOT = Path(__file__).parents[2]

CONFIG = """
_base_ = {base!r}
encoder, taught = {encoder!r}, {taught!r}
loader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        data_root={glue!r}, pipeline=[dict(type='TokenizeText', tokenizer=encoder, max_length=16)]
    ),
)
sampler = dict(_delete_=True, type='LengthGroupedSampler', batch_size=4)
train_dataloader = dict(batch_size=4, sampler=sampler, **loader)
val_dataloader = loader
test_dataloader = loader
model = dict(encoder=taught, teacher=taught)
train_cfg = dict(max_iters=4, val_interval=2)
default_hooks = dict(logger=dict(interval=1), checkpoint=dict(interval=2, max_keep_ckpts=-1))
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    """ReBNN on SST-2 with everything small; dropout as the encoder has it."""
    folder = tmp_path_factory.mktemp('glue')
    encoder = tiny_encoder(folder / 'encoder', hidden_dropout_prob=0.3)
    save_pretrained(TextClassifier(encoder), str(folder / 'taught'))
    write_glue(folder / 'data', rows=12)
    path = folder / 'tiny_rebnn_sst2.py'
    path.write_text(
        CONFIG.format(
            base=str(ROOT / 'configs/glue/rebnn.py'),
            encoder=encoder,
            taught=str(folder / 'taught'),
            glue=str(folder / 'data'),
        )
    )
    return path


@pytest.fixture(scope='module')
def trained(run_tool, config, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp('trained')
    done = run_tool('tools/train.py', config, '--work-dir', work_dir)
    assert done.returncode == 0, done.stderr
    return done, work_dir


def test_trains_and_shows_time_left_losses_and_the_majority_class(trained):
    done, work_dir = trained
    lines = [line for line in done.stdout.splitlines() if line.startswith('steps to ')]
    assert [line.partition('  ')[0] for line in lines] == ['steps to 2 of 4', 'steps to 4 of 4']
    assert all(word in line for line in lines for word in ('loss ', 'q ', 'label ', 'accuracy_majority 50', 'took '))
    assert ' left' not in lines[1]
    (log,) = (path.read_text() for path in work_dir.glob('*/*.log'))
    (line,) = (line for line in log.splitlines() if 'Iter(train) [4/4]' in line)
    assert all(word in line for word in ('eta: ', 'loss_q: ', 'loss_label: ', 'rebnn/flip'))
    assert len(list(work_dir.glob('best_glue_accuracy_iter_*.pth'))) == 1
    keys = torch.load(work_dir / 'iter_4.pth', weights_only=False)['state_dict']
    assert keys and not any('teacher' in key for key in keys)


def test_resumed_run_has_the_weights_of_the_whole_one_to_the_last_bit(run_tool, config, trained, tmp_path):
    _, whole = trained
    work_dir = tmp_path / 'resumed'
    work_dir.mkdir()
    shutil.copy(whole / 'iter_2.pth', work_dir)
    (work_dir / 'last_checkpoint').write_text(str(work_dir / 'iter_2.pth'))
    done = run_tool('tools/train.py', config, '--work-dir', work_dir, '--resume', '--verbose')
    assert done.returncode == 0, done.stderr
    assert 'Iter(train) [3/4]' in done.stdout and 'Iter(train) [2/4]' not in done.stdout
    one, other = (torch.load(path / 'iter_4.pth', weights_only=False)['state_dict'] for path in (whole, work_dir))
    assert one.keys() == other.keys()
    assert [key for key in one if not torch.equal(one[key], other[key])] == []
    before = torch.load(whole / 'iter_2.pth', weights_only=False)['state_dict']
    assert any(not torch.equal(one[key], before[key]) for key in one)


def test_tests_with_a_table_and_writes_predictions(run_tool, config, trained, tmp_path):
    (best,) = trained[1].glob('best_glue_accuracy_iter_*.pth')
    shutil.move(config.parent / 'taught', tmp_path / 'moved')  # a test needs no teacher, but the student's sizes
    try:
        done = run_tool(
            'tools/test.py', config, best, '--work-dir', tmp_path, '--out', tmp_path / 'out.pkl',
            '--cfg-options', f'model.encoder={config.parent / "encoder"}',
        )  # fmt: skip
    finally:
        shutil.move(tmp_path / 'moved', config.parent / 'taught')
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('│ glue/accuracy')]
    score, majority = (float(cell) for cell in line.strip('│').split('│')[1:])
    assert majority == 50
    samples = pickle.loads((tmp_path / 'out.pkl').read_bytes())
    assert len(samples) == 12
    right = [sample['pred_score'].argmax().item() == sample['gt_label'] for sample in samples]
    assert score == pytest.approx(100 * sum(right) / 12, abs=0.05)


def test_missing_teacher_is_named_before_anything_is_built(run_tool, config, tmp_path):
    done = run_tool(
        'tools/train.py', config, '--work-dir', tmp_path / 'work',
        '--cfg-options', 'model.teacher=work_dirs/minilm_nothing/pretrained',
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        'tools/train.py: no encoder at work_dirs/minilm_nothing/pretrained (model.teacher). Train it first: rebnn '
        'train its config minilm_nothing.py, or point to another one: --cfg-options model.teacher=<dir>.'
    )
    assert not (tmp_path / 'work').exists()
