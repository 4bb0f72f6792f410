import pytest
import torch

pytest.importorskip('transformers')

from rebnn_mm.models.language import TextClassifier, load_pretrained
from tests.models.language.tiny import BINARY, tiny_batch, tiny_encoder
from tests.scripts import run_here, run_script

TOOL = 'rebnn save-pretrained'


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """Encoder, config and checkpoint of a tiny binary classifier."""
    folder = tmp_path_factory.mktemp('files')
    encoder = tiny_encoder(folder / 'encoder')
    model = TextClassifier(encoder, num_labels=3, **BINARY)
    torch.save(dict(state_dict=model.state_dict()), folder / 'epoch_1.pth')
    options = dict(type='rebnn_mm.TextClassifier', encoder=encoder, num_labels=3, **BINARY)
    (folder / 'config.py').write_text(f'model = {options!r}\n')
    return folder, model.eval()


def test_checkpoint_becomes_a_directory(files, tmp_path):
    folder, model = files
    result = run_script(TOOL, folder / 'config.py', folder / 'epoch_1.pth', tmp_path / 'out')
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith('config.json, model.safetensors, tokenizer.json, tokenizer_config.json')
    inputs, _ = tiny_batch(folder / 'encoder')
    assert torch.equal(load_pretrained(str(tmp_path / 'out'))(inputs), model(inputs))


PROBLEMS = {
    'no.py epoch_1.pth out': 'no.py',
    'config.py no.pth out': 'no.pth.',
    'config.py empty.pth out': 'fills 0 of the',
    'config.py epoch_1.pth encoder': 'encoder exists already. Give the name of a new directory.',
    'image.py epoch_1.pth out': 'epoch_1.pth',
    'lost.py epoch_1.pth out': "encoder='./lost': there is no such directory.",
}


@pytest.mark.parametrize('names', list(PROBLEMS))
def test_problem_is_one_sentence_and_writes_nothing(files, names, capsys):
    folder, _ = files
    torch.save(dict(state_dict={}), folder / 'empty.pth')
    (folder / 'image.py').write_text("model = dict(type='BinaryVGGSmall')\n")
    (folder / 'lost.py').write_text("model = dict(type='rebnn_mm.TextClassifier', encoder='./lost')\n")
    # In this process, because importing OpenMMLab takes seconds; the test above runs the tool as a user does.
    with pytest.raises(SystemExit) as stopped:
        run_here(TOOL, *(folder / name for name in names.split()))
    assert stopped.value.code == 1
    assert PROBLEMS[names] in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (folder / 'out').exists()
