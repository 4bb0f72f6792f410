"""The command ``rebnn``, whose subcommands are modules of ``rebnn_mm.cli`` and ``rebnn_mm.deploy``.

It stands outside the package because ``import rebnn_mm`` takes the seconds of importing PyTorch, which neither a list
of subcommands nor a packed file needs.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import textwrap
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """A subcommand.

    Attributes:
        about: what it does, for the list.
        module: where its ``main`` is, below ``rebnn_mm``.
        light: whether it works without PyTorch.
        options: a module with ``parse_args`` that gives its help without PyTorch, if there is one.
    """

    about: str
    module: str
    light: bool = False
    options: str = ''


COMMANDS = {
    'run': Command('print what a packed model finds in an image or a text', 'deploy.run', light=True),
    'zoo': Command('list the trained models of the package', 'deploy.zoo', light=True),
    'push': Command('share a packed model on the Hugging Face hub', 'deploy.push', light=True),
    'seal': Command('seal a packed model again after a tool has changed it', 'deploy.reseal', light=True),
    'fit': Command('train and pack a detector for your own images with boxes', 'cli.fit', options='cli.fit'),
    'new-config': Command(
        'write a config for your own images with boxes', 'cli.new_config', options='cli.new_config_options'
    ),
    'train': Command('train a model from a config', 'cli.train'),
    'test': Command('score a checkpoint', 'cli.test'),
    'detect': Command('print what a checkpoint finds in an image', 'cli.detect'),
    'export': Command('write a checkpoint as a packed model, which runs without PyTorch', 'cli.export'),
    'test-packed': Command('score a packed model', 'cli.test_packed'),
    'choose': Command('compare accuracy, time and size of packed models', 'cli.choose'),
    'choose-layers': Command('find the parts of a 1-bit network that deserve more than one bit', 'cli.choose_layers'),
    'benchmark': Command('compare the time of packed networks with fp32 and int8', 'cli.benchmark'),
    'unpack': Command('turn a packed model back into a checkpoint', 'cli.unpack'),
    'ops': Command('count size and operations of a network, layer by layer', 'cli.ops'),
    'flips': Command('project how often signs will flip in a training', 'cli.flips'),
    'curves': Command('draw losses and scores of a training', 'cli.curves'),
    'oscillation': Command('draw how often signs flipped in trainings', 'cli.oscillation'),
    'weights': Command('draw the latent weights of a training', 'cli.weights'),
    'confusion': Command('count and draw which classes a detector confuses', 'cli.confusion'),
    'save-pretrained': Command("write a checkpoint in Hugging Face's layout", 'cli.save_pretrained'),
    'check': Command('check the installation, and test this machine with a packed model', 'deploy.check', light=True),
}


def main() -> None:
    """Run a subcommand, with the arguments after its name."""
    name, *arguments = sys.argv[1:] or ['--help']
    if name in ('-h', '--help'):
        print(usage())
    elif name == '--version':
        leave_package_unloaded()
        from rebnn_mm.version import __version__

        print(f'rebnn_mm {__version__}')
    elif name not in COMMANDS:
        leave_package_unloaded()
        from rebnn_mm.errors import did_you_mean

        near = did_you_mean(name, COMMANDS) or 'rebnn --help lists them.'
        raise SystemExit(f'rebnn: there is no command {name!r}. {near}')
    else:
        sys.argv = [f'rebnn {name}', *arguments]
        start(name)


def run() -> None:
    """The command ``rebnn-run``."""
    sys.argv[0] = 'rebnn-run'
    start('run')


def start(name: str) -> None:
    """Call the ``main`` of a subcommand, which reads ``sys.argv``."""
    command = COMMANDS[name]
    if not is_here(command.module):
        raise SystemExit(
            f'rebnn {name}: needs the whole of rebnn_mm; what is installed here only runs packed models. {WHOLE}'
        )
    if name == 'check' and is_here('cli.checks.environment') and not any(map(importlib.util.find_spec, TRAINING)):
        light = ', '.join(each for each, about in COMMANDS.items() if about.light)
        print(f'PyTorch and mmengine are not installed, so these commands work: {light}. For the others: {WHOLE}\n')
    elif name == 'check' and is_here('cli.checks.environment'):
        try:
            # By path, because `import rebnn_mm` fails on the machines that need the check most.
            runpy.run_path(str(path_of('cli.checks.environment')), run_name='__main__')
        except SystemExit as end:
            if end.code or {*sys.argv[1:]} - {'--traceback'}:
                raise
        print()
    only_help = bool(command.options) and not {'-h', '--help'}.isdisjoint(sys.argv[1:])
    if command.light or only_help:
        leave_package_unloaded()
    with_traceback = '--traceback' in sys.argv
    try:
        if only_help:
            importlib.import_module(f'rebnn_mm.{command.options}').parse_args()
        importlib.import_module(f'rebnn_mm.{command.module}').main()
    except ModuleNotFoundError as error:
        if with_traceback or str(error.name).startswith('rebnn_mm'):
            raise
        raise SystemExit(f'rebnn {name}: {error.name} is not installed. {how_to_install(name)}') from None


TRAINING = ('torch', 'mmengine')
"""What all commands that train need."""

WHOLE = 'Run `make setup` in a clone of rebnn_mm, which makes an environment of its own.'
"""How to get the commands that train."""


def is_here(module: str) -> bool:
    """Whether the part of rebnn_mm that is installed has a module."""
    return path_of(module).is_file()


def path_of(module: str) -> Path:
    """Where a module of rebnn_mm is, or would be."""
    return Path(str(package().origin)).parent.joinpath(*module.split('.')).with_suffix('.py')


def how_to_install(name: str) -> str:
    """Say what to install for a subcommand whose libraries are missing."""
    if COMMANDS[name].light:
        return 'Run: pip install numpy onnxruntime pillow'
    if name in ('export', 'test-packed', 'choose', 'choose-layers', 'benchmark', 'unpack'):
        return "Run: pip install 'rebnn_mm[export]'; what training needs too, rebnn check says"
    return 'rebnn check says what is missing'


def usage() -> str:
    """The list of subcommands, those first that work here."""
    width = max(map(len, COMMANDS)) + 2
    lines = ['usage: rebnn COMMAND ...', '', '1-bit networks: train them, pack them, run them.', '']
    here = [name for name, command in COMMANDS.items() if is_here(command.module)]
    lines += [f'  {name:<{width}}{COMMANDS[name].about}' for name in here]
    others = ', '.join(name for name in COMMANDS if name not in here)
    if others:
        lines += ['', *textwrap.wrap(f'Not installed here: {others}. {WHOLE}', 88, break_on_hyphens=False)]
    lines += ['', 'rebnn COMMAND --help explains a command; rebnn --version prints the version.']
    return '\n'.join([*lines, 'An error is one line; --traceback shows the whole traceback.'])


def package() -> ModuleSpec:
    """Find the folder of rebnn_mm."""
    spec = importlib.util.find_spec('rebnn_mm')
    if spec is None or spec.origin is None:
        raise SystemExit(f'rebnn: rebnn_mm is not installed in this Python. {WHOLE}')
    return spec


def leave_package_unloaded() -> None:
    """Make the modules of rebnn_mm importable without what ``import rebnn_mm`` imports, which takes seconds."""
    if 'rebnn_mm' not in sys.modules:
        sys.modules['rebnn_mm'] = importlib.util.module_from_spec(package())


if __name__ == '__main__':
    main()
