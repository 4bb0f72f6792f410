"""Export of a text classifier and its score, as a user runs them: from config and checkpoint to the packed file."""

import json

import numpy as np
import pytest
import torch
from mmengine.config import Config

pytest.importorskip('transformers')

from rebnn_mm.deploy import load
from rebnn_mm.deploy.run import main as rebnn_run
from rebnn_mm.models.language import TextClassifier
from tests.models.language.tiny import BINARY, WORDS, tiny_encoder
from tests.scripts import run_here


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A folder with an encoder, 60 sentences in SST-2's form, a config, a checkpoint and the packed file."""
    folder = tmp_path_factory.mktemp('text')
    encoder = tiny_encoder(folder / 'encoder')
    rng = np.random.default_rng(0)
    rows = [f'{" ".join(rng.choice(WORDS, rng.integers(1, 12)))}\t{rng.integers(0, 2)}' for _ in range(60)]
    (folder / 'dev.tsv').write_text('\n'.join(['sentence\tlabel', *rows]) + '\n')
    step = dict(type='TokenizeText', tokenizer=encoder, max_length=16)
    data = dict(type='GLUEDataset', task='sst2', ann_file=str(folder / 'dev.tsv'), pipeline=[step])
    Config(
        dict(
            custom_imports=dict(imports=['rebnn_mm'], allow_failed_imports=False),
            default_scope='mmengine',
            work_dir=str(folder / 'work'),
            model=dict(type='rebnn_mm.TextClassifier', encoder=encoder, pretrained=False, **BINARY),
            test_dataloader=dict(
                batch_size=16,
                num_workers=0,
                sampler=dict(type='DefaultSampler', shuffle=False),
                collate_fn=dict(type='glue_collate'),
                dataset=data,
            ),
            test_cfg=dict(),
            test_evaluator=dict(type='GLUEMetric', task='sst2'),
        )
    ).dump(folder / 'tiny.py')
    torch.manual_seed(1)
    model = TextClassifier(encoder, pretrained=False, **BINARY)
    with torch.no_grad():
        model.encoder.classifier.weight.normal_(0, 1)
    torch.save(dict(state_dict=model.state_dict(), meta={}), folder / 'tiny.pth')
    run_here(
        'tools/export.py', folder / 'tiny.py', folder / 'tiny.pth', '-o', folder / 'tiny.onnx', '--text', 'a good film'
    )
    return folder


def test_the_file_has_the_score_of_the_checkpoint(folder, capsys):
    run_here('rebnn test-packed', folder / 'tiny.py', folder / 'tiny.onnx')
    printed = capsys.readouterr().out
    assert '60 texts through' in printed
    packed = load(folder / 'tiny.onnx')
    model = TextClassifier(str(folder / 'encoder'), pretrained=False, **BINARY)
    model.load_state_dict(torch.load(folder / 'tiny.pth')['state_dict'])
    right = 0
    for line in (folder / 'dev.tsv').read_text().splitlines()[1:]:
        sentence, label = line.split('\t')
        tokens = packed.tokens([sentence])
        with torch.no_grad():
            logits = model.eval()({name: torch.from_numpy(values) for name, values in tokens.items()})[0]
        right += int(logits.argmax()) == int(label)
    assert 10 < right < 50
    assert f'{100 * right / 60:.1f}' in printed


def test_sentences_on_the_command_line(folder, capsys):
    rebnn_run([str(folder / 'tiny.onnx'), 'a very good film', '--json'])
    line = json.loads(capsys.readouterr().out)
    assert line['text'] == 'a very good film' and '1' in [row['name'] for row in line['result']]
    rebnn_run([str(folder / 'tiny.onnx'), 'a film', '--pair', 'the plot'])
    assert 'class  score' in capsys.readouterr().out


def test_options_of_images_are_refused(folder, capsys):
    arguments = (folder / 'tiny.py', folder / 'tiny.pth', '-o', folder / 'other.onnx')
    for options, words in [
        (('--image', 'cat.png'), 'use --text in place of --image'),
        (('--shape', 32, 32), 'leave --shape out'),
        (('--format', 'lce'), 'holds image classifiers'),
    ]:
        with pytest.raises(SystemExit):
            run_here('tools/export.py', *arguments, *options)
        assert words in capsys.readouterr().err
    assert not (folder / 'other.onnx').exists()
