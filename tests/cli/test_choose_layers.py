"""Parts of a 1-bit network made real in turn: trained on, packed, scored, timed, and a proposal at the end."""

import json
import sys
from unittest.mock import Mock

import pytest
from mmengine.config import Config

pytest.importorskip('mmpretrain')

from rebnn_mm.cli import choose_layers
from rebnn_mm.cli.choose_layers import main


@pytest.fixture
def trained(classifier):
    """The config of the folder, as one that can be trained."""
    cfg = Config.fromfile(classifier / 'tiny.py')
    cfg.model.backbone.conv_cfg = dict(type='ReBNNConv2d')
    cfg.merge_from_dict(
        dict(
            train_dataloader=cfg.test_dataloader,
            val_dataloader=cfg.test_dataloader,
            val_evaluator=cfg.test_evaluator,
            val_cfg=dict(),
            train_cfg=dict(by_epoch=True, max_epochs=9),
            optim_wrapper=dict(
                constructor='BinaryOptimWrapperConstructor', optimizer=dict(type='SGD', lr=0.1), type='OptimWrapper'
            ),
            custom_hooks=[dict(type='ReBNNHook')],
        )
    )
    cfg.dump(classifier / 'trained.py')
    return classifier


def choose(folder, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        given = [folder / 'trained.py', folder / 'tiny.pth', '--rounds', 1, *arguments]
        patch.setattr(sys, 'argv', ['rebnn choose-layers', *map(str, given)])
        main()


def test_a_part_is_made_real_and_proposed_if_it_pays(trained, capsys):
    work = trained / 'work'
    choose(trained, '--work-dir', work)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith('| ')]
    assert rows[0].startswith('| real part | layers | million weights | accuracy') and len(rows) == 2
    report = json.loads((work / 'parts.json').read_text())
    (part,) = report['parts']
    assert part['part'] == 'backbone.layer1' and part['layers'] == len(report['layers']['backbone.layer1']) == 4
    sizes = {
        (own, kind): (work / own / f'{kind}.onnx').stat().st_size
        for own in ('nothing', 'backbone.layer1')
        for kind in ('fp32', 'int8')
    }
    for kind in ('fp32', 'int8'):
        more = sizes['backbone.layer1', kind] - sizes['nothing', kind]
        assert part['megabytes'][kind] == pytest.approx(more / 1e6, abs=1e-3) and part['ms'][kind] != 0
    # What is finished is believed, and what pays is proposed.
    for own, accuracy in (('nothing', 40.0), ('backbone.layer1', 50.0)):
        (work / own / 'scores.json').write_text(json.dumps({'accuracy/top1': accuracy}))
    choose(trained, '--work-dir', work)
    shown = capsys.readouterr().out
    assert '| backbone.layer1 | 4 | 0.00 | +10.0 |' in shown
    assert 'Proposed at any cost: backbone.layer1 real, in int8; +10.0' in shown
    assert "Next to type='ReBNNConv2d': keep_real=['downsample', 'shortcut', 'backbone.layer1.0.conv1'" in shown
    choose(trained, '--work-dir', work, '--ms', -1e6)
    assert 'Proposed for at most -1e+06 ms more: nothing becomes real' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        choose(trained, '--work-dir', work, '--epochs', 2)
    assert 'holds networks made with epochs 1, not 2: name another --work-dir' in capsys.readouterr().err
    (work / 'nothing' / 'scores.json').write_text('{}')  # as of a detector that finds nothing
    choose(trained, '--work-dir', work, '--metric', 'accuracy/top1')
    assert '| backbone.layer1 | 4 | 0.00 | +50.0 |' in capsys.readouterr().out
    # Both networks draw alike.
    plans = [Config.fromfile(work / own / 'planned.py') for own in ('nothing', 'backbone.layer1')]
    assert [plan.randomness['seed'] for plan in plans] == [0, 0]
    # Half a checkpoint is none.
    (work / 'nothing' / 'last_checkpoint').unlink()
    before = (work / 'nothing' / 'epoch_1.pth').read_bytes()
    (work / 'nothing' / 'epoch_1.pth').write_bytes(before[:100])
    choose(trained, '--work-dir', work)
    assert len((work / 'nothing' / 'epoch_1.pth').read_bytes()) > 100
    (trained / 'tiny.pth').write_bytes((trained / 'tiny.pth').read_bytes() + b' ')
    with pytest.raises(SystemExit):
        choose(trained, '--work-dir', work)
    assert 'holds networks made with checkpoint' in capsys.readouterr().err


def test_a_training_goes_on_in_a_folder_that_was_moved(tmp_path, monkeypatch):
    (tmp_path / 'last_checkpoint').write_text('moved/from/here/epoch_1.pth')
    (tmp_path / 'epoch_1.pth').touch()
    begun = []
    monkeypatch.setattr(choose_layers.Runner, 'from_cfg', lambda cfg: begun.append(cfg) or Mock())
    choose_layers.train_part(Config(dict(train_cfg=dict(max_epochs=2), load_from='start.pth')), tmp_path)
    assert (begun[0].resume, begun[0].load_from) == (True, str(tmp_path / 'epoch_1.pth'))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (['model.backbone.conv_cfg=None'], 'Use the config it was trained with'),
        (
            ['val_dataloader=None', 'val_cfg=None', 'val_evaluator=None'],
            'has no val_dataloader and no val_evaluator. Take',
        ),
        (
            ['train_cfg._delete_=True', 'train_cfg.by_epoch=False', 'train_cfg.max_iters=9'],
            'is trained for iterations',
        ),
        (
            ['optim_wrapper.optimizer._delete_=True', 'optim_wrapper.optimizer.type=SGD'],
            'it sets no lr, which --lr-mult',
        ),
    ],
    ids=['a real network', 'no validation set', 'iterations', 'no rate'],
)
def test_what_does_not_go_is_said_before_the_work(trained, tmp_path, options, message, capsys):
    with pytest.raises(SystemExit):
        choose(trained, '--work-dir', tmp_path / 'other', '--cfg-options', *options)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob('*.pth'))
