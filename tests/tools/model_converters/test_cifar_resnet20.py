import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

pytest.importorskip('mmpretrain')

from mmpretrain.registry import MODELS
from mmpretrain.utils import register_all_modules

from tests.scripts import ROOT, run_script

register_all_modules(init_default_scope=False)

TOOL = 'tools/model_converters/cifar_resnet20.py'
NORM = ('weight', 'bias', 'running_mean', 'running_var')


def published_names(adabin: bool) -> list[str]:
    """Parameter names of the published files, without the counters of batch norms."""
    maxout = ('neg_scale', 'pos_scale')
    names = ['conv1.weight', *(f'bn1.{part}' for part in NORM)]
    if adabin:
        names += [f'nonlinear1.{part}' for part in maxout] + [f'bn2.{part}' for part in NORM]
    for layer in ('1', '2', '3'):
        for block in ('0', '1', '2'):
            for half in ('1', '2'):
                at = f'layer{layer}.{block}'
                names += [f'{at}.conv{half}.weight', *(f'{at}.bn{half}.{part}' for part in NORM)]
                if adabin:
                    names += [f'{at}.conv{half}.binary_a.{part}' for part in ('alpha_a', 'beta_a')]
                    names += [f'{at}.nonlinear{half}.{part}' for part in maxout]
    return [f'module.{name}' for name in [*names, 'linear.weight', 'linear.bias']]


def convert(src, dest):
    return run_script(TOOL, '--src', src, '--dest', dest)


@pytest.mark.parametrize('name', ['plain', 'adabin'])
def test_every_published_parameter_finds_its_place_and_none_is_left(name, tmp_path):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        cfg = Config.fromfile(ROOT / f'configs/cifar10/reference/resnet20_{name}_cifar10.py')
        model = MODELS.build(cfg.model)
    published = published_names(name == 'adabin')
    state = {key: torch.tensor(float(number)) for number, key in enumerate(published)}
    torch.save(dict(best_prec1=0.0, state_dict=state), tmp_path / 'published.th')
    done = convert(tmp_path / 'published.th', tmp_path / 'ours.pth')
    assert done.returncode == 0, done.stderr
    ours = torch.load(tmp_path / 'ours.pth', weights_only=True)['state_dict']
    wanted = {key for key in model.state_dict() if 'num_batches_tracked' not in key and 'data_preprocessor' not in key}
    assert ours.keys() == wanted
    assert ours['backbone.layer2.1.bn2.running_var'] == published.index('module.layer2.1.bn2.running_var')
    if name == 'adabin':
        assert ours['backbone.layer3.0.act2.negative'] == published.index('module.layer3.0.nonlinear2.neg_scale')
        assert ours['neck.norm.bias'] == published.index('module.bn2.bias')


def test_unknown_file_and_unknown_network_are_refused(tmp_path):
    done = convert(tmp_path / 'nothing.th', tmp_path / 'ours.pth')
    assert done.returncode == 1 and 'nothing.th. Give the published file as --src.' in done.stderr
    torch.save({'features.0.weight': torch.zeros(1)}, tmp_path / 'vgg.th')
    done = convert(tmp_path / 'vgg.th', tmp_path / 'ours.pth')
    assert done.returncode == 1 and "'features.0.weight' is no parameter of a ResNet-20" in done.stderr
    assert not (tmp_path / 'ours.pth').exists()
