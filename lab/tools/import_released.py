"""Rename the parameters of a checkpoint that the authors of a method released to those of one of our configs.

    python -m lab.tools.import_released reactnet-a model_best.pth.tar reactnet_a.pth
    python tools/test.py configs/networks/reactnet_a_imagenet.py reactnet_a.pth
    python tools/export.py configs/networks/reactnet_a_imagenet.py reactnet_a.pth -o reactnet_a.onnx

Every parameter has to find its place and every place its parameter; else the file is refused.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from torch import Tensor
from torch.nn import BatchNorm2d

from lab.tools import larq_zoo
from lab.tools.larq_zoo import Rule
from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.functional import channel_dims, sign
from rebnn_mm.methods.bnext import HARD
from rebnn_mm.models.backbones.bnext import ARCHS
from rebnn_mm.models.backbones.quick_net import ARCHS as QUICKNETS
from rebnn_mm.utils.command_line import check_writable
from rebnn_mm.utils.config_file import get_config_dir


class Released(NamedTuple):
    """A released network.

    Attributes:
        config: ours, below configs/.
        source: where its file or its code is published.
        rules: applied in their order to each name; what ends in '#0', '#1', ... is put together along the channels.
        unused: names, as published, of what the network holds and does not compute with.
        kept: ending of what our network has in addition and does not predict with.
        folded: names, as ours, of what has no place of its own; ``revalue`` reads them.
        revalue: changes values where the same network is computed in another way.
    """

    config: str
    source: str
    rules: Sequence[Rule]
    unused: str = ''
    kept: str = ''
    folded: Sequence[str] = ()
    revalue: Callable[[dict[str, Tensor]], None] | None = None


def in_stages(depths: Sequence[int], prefix: str, offset: int = 0) -> Rule:
    """Blocks that are counted through the whole network get a stage and a place in it."""
    places = [f'layer{stage + 1}.{i}.' for stage, depth in enumerate(depths) for i in range(depth)]

    def place(match: re.Match[str]) -> str:
        index = int(match[1]) - offset
        return f'backbone.{places[index]}' if 0 <= index < len(places) else match[0]

    return rf'^{prefix}\.(\d+)\.', place


def in_halves(names: Sequence[tuple[str, str]]) -> Rule:
    """Blocks of one convolution become the halves of blocks of two; ``{}`` in a new name is the half, 1 or 2."""

    def place(match: re.Match[str]) -> str:
        index, name = int(match[2]), match[3]
        for pattern, new in names:
            if re.match(pattern, name):
                name = re.sub(pattern, new.format(index % 2 + 1), name)
                break
        return f'backbone.layer{match[1]}.{index // 2}.{name}'

    return r'^layer(\d)\.(\d+)\.(.+)$', place


CLASSIFIER: list[Rule] = [(r'^(?:fc|linear)\.', 'head.fc.')]
LAST_NORM: list[Rule] = [(r'^bn2\.', 'neck.norm.')]
BACKBONE: list[Rule] = [(r'^(conv1|bn1|layer)', r'backbone.\1')]
POOLED: list[Rule] = [(r'\.downsample\.1\.', '.downsample.0.'), (r'\.downsample\.2\.', '.downsample.1.')]
"""Shortcuts whose pooling is counted with their convolution; the first rule must not meet what the second makes."""

RESNET = [*CLASSIFIER, *LAST_NORM, *BACKBONE]
ADABIN: list[Rule] = [
    (r'^nonlinear1\.', 'backbone.stem_act.'),
    *RESNET,
    (r'\.nonlinear([12])\.', r'.act\1.'),
    (r'\.pos_scale$', '.positive'),
    (r'\.neg_scale$', '.negative'),
    (r'\.binary_a\.(alpha|beta)_a$', r'.activation_quantizer.\1'),
    (r'\.shortcut\.', '.downsample.'),
]
ADABIN_POOLED = [*ADABIN, *POOLED]
RECU: list[Rule] = [*RESNET, (r'\.(alpha|tau)$', r'.weight_quantizer.\1')]
SINGLE = [
    (r'binary_conv\.weights?$', 'conv{}.weight'),
    (r'conv\.', 'conv{}.'),
    (r'bn1?\.', 'bn{}.'),
    (r'move0\.bias$', 'conv{}.activation_quantizer.shift'),
    (r'move1\.bias$', 'act{}.shift_in'),
    (r'(?:prelu|nonlinear)\.weight$', 'act{}.slope'),
    (r'move2\.bias$', 'act{}.shift_out'),
    (r'downsample\.1\.', 'downsample.0.'),
    (r'downsample\.2\.', 'downsample.1.'),
]
REACT: list[Rule] = [*CLASSIFIER, in_halves(SINGLE), *BACKBONE]
MOBILE_STAGES = ARCHS['tiny'][1]
"""Of BNext-T and S, and of ReActNet-A."""
STEM: list[Rule] = [(r'^feature\.0\.', 'backbone.')]
REACT_A: list[Rule] = [
    *CLASSIFIER,
    *STEM,
    in_stages(MOBILE_STAGES, 'feature', offset=1),
    (r'\.weights$', '.weight'),
    (r'\.binary_3x3\.', '.conv1.'),
    (r'\.binary_pw\.', '.conv2.'),
    (r'\.binary_pw_down1\.(.*)$', r'.conv2.\1#0'),
    (r'\.binary_pw_down2\.(.*)$', r'.conv2.\1#1'),
    (r'\.bn2_1\.(.*)$', r'.bn2.\1#0'),
    (r'\.bn2_2\.(.*)$', r'.bn2.\1#1'),
    (r'\.move([12])1\.bias$', r'.conv\1.activation_quantizer.shift'),
    (r'\.move([12])2\.bias$', r'.act\1.shift_in'),
    (r'\.move([12])3\.bias$', r'.act\1.shift_out'),
    (r'\.prelu([12])\.weight$', r'.act\1.slope'),
]
BIREAL_50: list[Rule] = [
    *CLASSIFIER,
    (r'^(conv1|bn1)\.', r'backbone.\1.'),
    in_stages((3, 4, 6, 3), 'layers'),
    (r'\.down_conv1x1\.', '.widen.'),
    *POOLED,
]
BNEXT: list[Rule] = [
    *CLASSIFIER,
    (r'^prelu\.', f'backbone.layer5.{MOBILE_STAGES[-1]}.'),
    *STEM,
    in_stages(MOBILE_STAGES, 'feature', offset=1),
    (r'\.Attention\.', '.spatial.'),
    (r'\.FFN(?:_1)?\.', '.pointwise.0.'),
    (r'\.FFN_2\.', '.pointwise.1.'),
    (r'\.move\.bias$', '.conv.activation_quantizer.shift'),
    (r'\.binary_conv\.temperature$', '.conv.weight_quantizer.temperature'),
    (r'\.binary_conv\.', '.conv.'),
    (r'\.norm([12])\.', r'.bn\1.'),
    (r'\.activation1\.', '.attend.'),
    (r'\.activation2\.', '.act.'),
    (r'\.se\.se\.1\.', '.se.squeeze.'),
    (r'\.se\.se\.3\.', '.se.excite.'),
    (r'\.scale$', '.mix'),
]
VGG_UNITS = {
    2: 'conv1_2', 3: 'pool1', 4: 'conv2_1', 5: 'conv2_2', 6: 'pool2', 7: 'conv3_1', 8: 'conv3_2', 9: 'conv3_3',
    10: 'pool3', 11: 'conv4_1', 12: 'conv4_2', 13: 'conv4_3', 14: 'pool4', 15: 'conv5_1', 16: 'conv5_2', 17: 'conv5_3',
}  # fmt: skip
VGG_LAYERS = {0: 'conv1_1.conv', 1: 'conv1_1.bn', 19: 'conv6.conv', 20: 'conv6.bn', 22: 'conv7.conv', 23: 'conv7.bn'}
BIDET_SSD: list[Rule] = [
    *POOLED,
    (r'^vgg\.layers\.(\d+)\.', lambda match: f'backbone.{(VGG_UNITS | VGG_LAYERS).get(int(match[1]), match[1])}.'),
    (r'^L2Norm\.', 'neck.l2_norm.'),
    (r'^extras\.(\d)\.', lambda match: f'neck.extra_layers.{int(match[1]) // 2}.{int(match[1]) % 2}.conv.'),
    (r'^extra_bns\.(\d)\.', lambda match: f'neck.extra_layers.{int(match[1]) // 2}.{int(match[1]) % 2}.bn.'),
    (r'^loc\.(\d)\.', r'bbox_head.reg_convs.\1.0.'),
    (r'^conf\.(\d)\.', r'bbox_head.cls_convs.\1.0.'),
]
BIDET_18: list[Rule] = [
    *CLASSIFIER,
    *BACKBONE,
    (r'\.conv([12])\.conv\.', r'.conv\1.'),
    (r'\.conv([12])\.bn\.', r'.bn\1.'),
    (r'\.conv1\.res_func\.1\.', '.downsample.0.'),
    (r'\.conv1\.res_func\.2\.', '.downsample.1.'),
]
CONV7_BIAS = 'backbone.conv7.conv.bias'
JUST_ABOVE_ZERO = 2.0**-24
"""The smallest positive number in half precision."""


def bidet_ssd_values(found: dict[str, Tensor]) -> None:
    r"""Convert the values of BiDet's SSD that it computes in another way than ours.

    A bias before a norm goes into its mean. After the ReLU of conv7 the signs s of the first extra layer are 0
    and 1, as :math:`sign(0) = 0` there: :math:`s = (t + 1) / 2` with the sign t, -1 or +1, of what is less by next to
    nothing; and a norm of half its input plus a constant is another norm of its input. The heads have the background
    first, and before each anchor's means its log variances.
    """
    before = found['backbone.conv7.bn.running_mean']
    before -= reshape(found.pop(CONV7_BIAS), before.shape, 'vgg.layers.22.bias')
    first = 'neck.extra_layers.0.0.'
    weight, mean, var = (found[first + name] for name in ('conv.weight', 'bn.running_mean', 'bn.running_var'))
    dims = channel_dims(weight)
    constant = weight.abs().double().mean(dims) * sign(weight).double().sum(dims) / 2
    mean.copy_(2 * (mean - constant))
    var.copy_(4 * var + 3 * BatchNorm2d(1).eps)
    found[f'{first}conv.activation_quantizer.shift'].fill_(-JUST_ABOVE_ZERO)
    for key in [key for key in found if key.startswith('bbox_head.')]:
        by_class, values = 'cls_convs' in key, found[key]
        by_anchor = values.unflatten(0, (-1, 21 if by_class else 8))
        if by_class:
            found[key] = by_anchor.roll(-1, dims=1).flatten(0, 1)
        else:
            found[key] = torch.cat([by_anchor[:, 4:].flatten(0, 1), by_anchor[:, :4].flatten(0, 1)])


# Every second block multiplies by its input; the others hold an activation for that, as all 1x1 units do.
UNUSED_BNEXT = (
    r'feature\.0\.prelu\.|.*\.binary_activation\.temperature$'
    r'|feature\.(?:1|3|5|7|9|11|13)\.Attention\.activation1\.|.*\.FFN(?:_[12])?\.activation1\.'
)
REACTNET, BIREAL, BNEXT_CODE = 'liuzechun/ReActNet', 'liuzechun/Bi-Real-net', 'hpi-xnor/BNext'
ADABIN_CODE, RECU_CODE, IRNET_CODE = 'huawei-noah/Efficient-Computing', 'z-hXu/ReCU', 'htqin/IR-Net'
BIDET_CODE, LARQ_ZOO = 'ZiweiWangTHU/BiDet', 'larq/zoo'
UNUSED_ADABIN = r'nonlinear2\.|bn3\.'


def quicknet(arch: str) -> Released:
    """Larq Zoo's QuickNet in one of its sizes."""
    name = 'quicknet' if arch == 'base' else f'quicknet_{arch}'
    rules = larq_zoo.quicknet_rules(QUICKNETS[arch][1])
    return Released(
        f'released/{name}_imagenet.py', LARQ_ZOO, rules, folded=larq_zoo.BLURS, revalue=larq_zoo.quicknet_values
    )


RELEASED = {
    'adabin-resnet20': Released('cifar10/reference/resnet20_adabin_cifar10.py', ADABIN_CODE, ADABIN),
    'adabin-resnet18-cifar10': Released('released/resnet18_adabin_cifar10.py', ADABIN_CODE, ADABIN),
    'adabin-resnet18': Released('released/resnet18_adabin_imagenet.py', ADABIN_CODE, ADABIN_POOLED, UNUSED_ADABIN),
    'adabin-resnet34': Released('released/resnet34_adabin_imagenet.py', ADABIN_CODE, ADABIN_POOLED, UNUSED_ADABIN),
    'bidet-resnet18': Released('released/resnet18_bidet_imagenet.py', BIDET_CODE, BIDET_18),
    'bidet-ssd300-voc': Released(
        'released/ssd300_vgg16_bidet_voc.py',
        BIDET_CODE,
        BIDET_SSD,
        kept='.shift',
        folded=[CONV7_BIAS],
        revalue=bidet_ssd_values,
    ),
    'bireal-resnet18': Released('imagenet/resnet18_bireal_imagenet.py', BIREAL, REACT),
    'bireal-resnet34': Released('imagenet/resnet34_bireal_imagenet.py', BIREAL, REACT),
    'bireal-resnet50': Released('networks/bireal50_imagenet.py', BIREAL, BIREAL_50, r'layers\.0\.down_conv1x1\.'),
    'bnext-tiny': Released('networks/bnext_t_imagenet.py', BNEXT_CODE, BNEXT, UNUSED_BNEXT),
    'bnext-small': Released('networks/bnext_s_imagenet.py', BNEXT_CODE, BNEXT, UNUSED_BNEXT),
    'irnet-resnet20': Released('released/resnet20_irnet_cifar10.py', IRNET_CODE, RESNET, kept='.sharpness'),
    'irnet-resnet18': Released('released/resnet18_irnet_imagenet.py', IRNET_CODE, RESNET, r'bn3\.', '.sharpness'),
    'larq-bireal-resnet18': Released(
        'released/resnet18_bireal_larq_imagenet.py', LARQ_ZOO, larq_zoo.BIREAL_18, revalue=larq_zoo.with_keras_eps
    ),
    'larq-meliusnet22': Released('released/meliusnet22_imagenet.py', LARQ_ZOO, larq_zoo.MELIUSNET),
    'larq-real-to-binary': Released(
        'released/real_to_binary_imagenet.py', LARQ_ZOO, larq_zoo.REAL_TO_BINARY, revalue=larq_zoo.with_keras_eps
    ),
    'plain-resnet20': Released(
        'cifar10/reference/resnet20_plain_cifar10.py', 'akamaster/pytorch_resnet_cifar10', RESNET
    ),
    'quicknet': quicknet('base'),
    'quicknet-small': quicknet('small'),
    'quicknet-large': quicknet('large'),
    'reactnet-a': Released('networks/reactnet_a_imagenet.py', REACTNET, REACT_A),
    'reactnet-resnet18': Released('imagenet/resnet18_react_imagenet.py', REACTNET, REACT),
    'reactnet-resnet34': Released('imagenet/resnet34_react_imagenet.py', REACTNET, REACT),
    'recu-resnet20': Released('released/resnet20_recu_cifar10.py', RECU_CODE, RECU),
    'recu-resnet18': Released('released/resnet18_recu_imagenet.py', RECU_CODE, RECU),
    'recu-resnet34': Released('released/resnet34_recu_imagenet.py', RECU_CODE, RECU),
    'recu-resnet18-two-stage': Released(
        'imagenet/resnet18_recu_two_stage_imagenet.py',
        RECU_CODE,
        [(r'^conv\.', 'backbone.conv1.'), (r'^bn\.', 'backbone.bn1.'), *REACT, *RECU[-1:]],
    ),
}
"""What can be imported, by name."""


def read_published(path: Path) -> dict[str, Tensor]:
    """The state dict in a published file.

    Raises:
        ValueError: it holds no state dict, or more than tensors and plain values, or is a Keras file without weights.
    """
    if larq_zoo.is_keras_file(path):
        return larq_zoo.keras_state(path)
    try:
        loaded = torch.load(path, map_location='cpu', weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError, ValueError) as error:
        said = str(error).strip().splitlines() if isinstance(error, pickle.UnpicklingError | RuntimeError) else []
        raise ValueError(f'cannot be read: {said[0] if said else "it is not a checkpoint."}') from None
    for key in ('state_dict', 'model', 'net', 'weight'):
        loaded = loaded.get(key, loaded) if isinstance(loaded, dict) else loaded
    if not (isinstance(loaded, dict) and loaded and all(isinstance(value, Tensor) for value in loaded.values())):
        raise ValueError('holds no state dict.')
    return loaded


def rename(key: str, rules: Sequence[Rule]) -> str:
    """The name that our config's model gives to a parameter."""
    for pattern, replacement in rules:
        key = re.sub(pattern, replacement, key)
    return key


def convert(state: dict[str, Tensor], released: Released, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict under our names and in our shapes.

    Args:
        state: as published.
        released: which network it is of.
        wanted: state dict of our model.

    Raises:
        ValueError: it has other parameters, or of other shapes, or its weights have not become signs.
    """
    found: dict[str, Tensor] = {}
    names: dict[str, str] = {}
    for key, value in state.items():
        key = key.removeprefix('module.')
        if released.unused and re.match(released.unused, key):
            continue
        new = rename(key, released.rules)
        if key.endswith('num_batches_tracked'):
            new = new.partition('#')[0]
            if new not in wanted:
                continue
        found[new], names[new] = value, key
    for first in [key for key in found if key.endswith('#0') and f'{key[:-1]}1' in found]:
        whole, parts = first[:-2], [found.pop(first)]
        while (part := f'{whole}#{len(parts)}') in found:
            parts.append(found.pop(part))
        found[whole], names[whole] = torch.cat(parts), names[first]
    for key, value in wanted.items():
        if released.kept and key.endswith(released.kept):
            found.setdefault(key, value)
    unexpected = [key for key in found if key not in wanted and key not in released.folded]
    needed = [*wanted, *released.folded]
    missing = [key for key in needed if key not in found and not key.endswith('num_batches_tracked')]
    if unexpected:
        more = f', nor are {len(unexpected) - 1} more' if len(unexpected) > 1 else ''
        raise ValueError(f'{names[unexpected[0]]!r} is not a parameter of this network{more}.')
    if missing:
        more = f', and {len(missing) - 1} more are' if len(missing) > 1 else ' is'
        raise ValueError(f'what becomes {missing[0]!r}{more} missing.')
    for key, value in found.items():
        if key in released.folded:
            continue
        found[key] = reshape(value, wanted[key].shape, names.get(key, key))
        if key.endswith('.temperature') and float(value) >= HARD:
            raise ValueError(
                f'{names[key]!r} is {float(value):.2g}: its weights have not become signs, which they are below '
                f'{HARD:.0e}. Take the checkpoint at the end of its training.'
            )
    if released.revalue is not None:
        released.revalue(found)
    return found


def reshape(value: Tensor, shape: torch.Size, name: str) -> Tensor:
    """A value with dimensions of one added or left out, or laid out from a column."""
    flat = value.dim() <= 2 and value.numel() == max(value.shape, default=1) == shape.numel()
    if flat or [n for n in value.shape if n > 1] == [n for n in shape if n > 1]:
        return value.reshape(shape).clone()
    raise ValueError(f'{name!r} has the shape {tuple(value.shape)} where {tuple(shape)} is expected.')


@report_errors
def main() -> None:
    listed = '\n'.join(f'  {name}: {each.source} for {each.config}' for name, each in RELEASED.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f'names:\n{listed}', formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('name', choices=list(RELEASED), metavar='NAME', help='what the file is of; see below')
    parser.add_argument('source', type=Path, help='published file')
    parser.add_argument('out', type=Path, help='file to write')
    args = parser.parse_args()
    if not args.source.is_file():
        raise RebnnError(f'no {args.source}. Give the published file.')
    check_writable(args.out, inputs=[args.source])
    released = RELEASED[args.name]
    cfg = Config.fromfile(get_config_dir() / released.config)
    if cfg.model.pop('teacher', None) is not None:
        cfg.model = dict(type='ImageClassifier', **{key: cfg.model[key] for key in ('backbone', 'neck', 'head')})
    try:
        wanted = build_network(cfg).state_dict()
        state = convert(read_published(args.source), released, wanted)
    except (ImportError, ValueError) as problem:
        what = '' if isinstance(problem, ImportError) else f'{args.source} is not a file of {args.name}: '
        raise RebnnError(f'{what}{problem}') from problem
    with whole_file(args.out) as part:
        torch.save(dict(state_dict=state), part)
    print(f'{len(state)} tensors written to {args.out}; its config is configs/{released.config}')


if __name__ == '__main__':
    main()
