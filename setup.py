"""Packaging of rebnn_mm. Tool settings live in pyproject.toml, the tested set of versions in requirements.txt."""

import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, NoReturn

from setuptools import Command, Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.resolve()
library_file = runpy.run_path(str(ROOT / 'rebnn_mm' / 'native_library.py'))['library_file']
LIBRARY_FOLDER = library_file('librebnn').parent.relative_to(ROOT)
SKIP_RUNTIME = os.environ.get('REBNN_SKIP_RUNTIME') == '1'

# Both families install the folders mmengine/, mmcv/, mmdet/ and mmpretrain/, and pip does not see that they clash.
# They are extras, because a hard requirement on one would overwrite the other.
EXTRAS = {
    'onedl': ['onedl-mmengine>=0.10.10', 'onedl-mmcv>=2.3.5', 'onedl-mmdetection>=3.5', 'onedl-mmpretrain>=1.3.5'],
    # The original family cannot load its own checkpoints from torch 2.6 on, and needs pkg_resources, which left
    # setuptools in version 82.
    'openmmlab': [
        'mmengine>=0.10.4,<0.11',
        'mmcv>=2.0,<2.2',
        'mmdet>=3.2,<3.4',
        'mmpretrain>=1.2',
        'torch<2.6',
        'setuptools<82',
    ],
    # What writes packed models, and what runs them.
    'export': ['onnx>=1.17', 'onnxscript>=0.5', 'onnx_ir>=0.1.12', 'onnxruntime>=1.17', 'rich', 'tflite>=2.18'],
    'deploy': ['numpy', 'onnxruntime>=1.17', 'pillow'],
    # Answers images over HTTP (demo/serve.py).
    'serve': ['numpy', 'onnxruntime>=1.17', 'pillow', 'fastapi', 'uvicorn'],
    # Published weights that are Keras files (lab/reports/released_weights.md).
    'released': ['h5py'],
    # Models of the Hugging Face hub: hf:owner/name, push, save_pretrained.
    'hub': ['huggingface_hub>=0.34', 'safetensors'],
    # Encoders, tokenizers, and the metrics of GLUE. Before version 5, BERT silently keeps its own attention.
    'language': ['transformers>=5.0', 'scikit-learn', 'scipy'],
    # Runs the lists of experiments, side by side or on a cluster.
    'experiments': ['snakemake>=9; python_version>="3.11"', 'matplotlib', 'scipy'],
    # Formatter and type checker are pinned: their verdict changes from version to version.
    # psutil is for mmdet's benchmark.py.
    'dev': [
        'pytest>=8',
        'pytest-cov>=7',
        'pytest-xdist==3.8.0',
        'ruff==0.17.5',
        'mypy==2.4.1',
        'import-linter==2.16',
        'tensorboard',
        'h5py',
        'psutil',
        'snakemake==9.27.1; python_version>="3.11"',
    ],
}


class BuildWithConfigs(build_py):
    """Copies ``configs``, their index and the doors to our commands into the package, to ``.mim``.

    There OpenMMLab's tools look for them. An editable install has links there.
    """

    def run(self) -> None:
        if not self.editable_mode:  # modules that an earlier build left
            shutil.rmtree(Path(self.build_lib, 'rebnn_mm'), ignore_errors=True)
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, 'rebnn_mm', '.mim')
            shutil.copytree(ROOT / 'configs', target / 'configs', ignore=shutil.ignore_patterns('__pycache__'))
            shutil.copy(ROOT / 'model-index.yml', target)
            for script in (ROOT / 'tools').rglob('*.py'):
                if 'from rebnn_mm.cli.' in script.read_text(encoding='utf-8'):
                    door = target / script.relative_to(ROOT)
                    door.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(script, door)


class BuildRuntime(Command):
    """Compiles the folder ``runtime`` with CMake into ``rebnn_mm/deploy/lib``; ``REBNN_SKIP_RUNTIME=1`` leaves it out.

    In editable mode the libraries go into the source folder. Object files stay in ``build/runtime``, so that only what
    has changed is compiled the next time.
    """

    description = 'compile the runtime of packed models'
    user_options: ClassVar = [('editable-mode', None, 'put the libraries into the source folder')]
    boolean_options: ClassVar = ['editable-mode']
    # Place below the folder of CMake.
    libraries = (library_file('librebnn').name, f'ort/{library_file("librebnn_ort").name}')

    def initialize_options(self) -> None:
        self.editable_mode = False
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options('build_py', ('build_lib', 'build_lib'))

    def run(self) -> None:
        if SKIP_RUNTIME:
            return
        compiler = os.environ.get('CXX') or next(filter(shutil.which, ('c++', 'g++', 'clang++')), 'g++')
        if not shutil.which(compiler.split()[0]):
            stop(f'there is no C++ compiler for the runtime ({compiler}). Install one (Debian: apt-get install g++)')
        cmake, ninja = find_program('cmake', 'CMAKE_BIN_DIR'), find_program('ninja', 'BIN_DIR')
        if cmake is None:
            stop('there is no CMake for the runtime. Install it (pip install cmake)')
        folder = ROOT / 'build' / 'runtime'
        configure = [cmake, '-S', str(ROOT / 'runtime'), '-B', str(folder), '-DCMAKE_BUILD_TYPE=Release']
        configure += ['-DREBNN_BUILD_TESTS=OFF']  # which the tests turn on, in this folder
        configure += ['-G', 'Ninja', f'-DCMAKE_MAKE_PROGRAM={ninja}'] if ninja else []
        if not succeeds(configure, quiet=True):
            # Perhaps the folder was made for a clone at another place, or by another generator.
            shutil.rmtree(folder, ignore_errors=True)
            if not succeeds(configure):
                stop('CMake cannot prepare the runtime, see above. Fix that')
        jobs = os.environ.get('MAX_JOBS') or str(os.cpu_count())
        if not succeeds([cmake, '--build', str(folder), '--parallel', jobs]):
            stop('the runtime does not compile, see above. Fix that')
        target = ROOT / LIBRARY_FOLDER if self.editable_mode else Path(self.build_lib, LIBRARY_FOLDER)
        target.mkdir(parents=True, exist_ok=True)
        for library in self.libraries:
            new = target / f'{Path(library).name}.new'
            shutil.copy(folder / library, new)
            new.replace(new.with_suffix(''))  # a process that runs the old one keeps it

    def get_outputs(self) -> list[str]:
        folder = Path(self.build_lib, LIBRARY_FOLDER)
        return [] if SKIP_RUNTIME else [str(folder / Path(library).name) for library in self.libraries]

    def get_output_mapping(self) -> dict[str, str]:
        paths = self.get_outputs() if self.editable_mode else []
        return {path: str(LIBRARY_FOLDER / Path(path).name) for path in paths}


def find_program(name: str, folder: str) -> str | None:
    """The tool of PyPI's package ``name``, which need not be on the ``PATH``, or else the system's."""
    try:
        inside = shutil.which(name, path=str(getattr(importlib.import_module(name), folder)))
    except (ImportError, AttributeError):
        inside = None
    return inside or shutil.which(name)


def succeeds(command: list[str], quiet: bool = False) -> bool:
    """Whether the command ends well; if not, what it said is shown."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode and not quiet:
        print(done.stdout, file=sys.stderr)
    return done.returncode == 0


def stop(problem: str) -> NoReturn:
    raise SystemExit(f'rebnn_mm: {problem}, or go without packed models: REBNN_SKIP_RUNTIME=1.')


class BuildAll(build):
    """The usual steps, then the runtime."""

    sub_commands: ClassVar = [*build.sub_commands, ('build_runtime', None)]


class PlatformWheel(bdist_wheel):
    """Tags a wheel that holds the runtime for its platform and any Python 3: the libraries do not know Python."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ('py3', 'none', platform)


class WithRuntime(Distribution):
    """Belongs to a platform if the runtime is in it."""

    def has_ext_modules(self) -> bool:
        return not SKIP_RUNTIME


def read_version() -> str:
    """The version as text, without importing the package and with it torch."""
    return re.search(r"__version__ = '(.+)'", (ROOT / 'rebnn_mm' / 'version.py').read_text())[1]


setup(
    name='rebnn_mm',
    version=read_version(),
    description='Resilient binary neural networks (ReBNN, AAAI 2023) for OpenMMLab detectors and classifiers',
    long_description=(ROOT / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    author='The rebnn_mm developers',
    license='Apache-2.0',
    license_files=['LICENSE'],
    python_requires='>=3.10,<3.13',
    packages=find_packages(include=['rebnn_mm', 'rebnn_mm.*']),
    py_modules=['rebnn_command'],
    package_data={'rebnn_mm': ['starts/*', 'zoo/*']},
    install_requires=['torch', 'numpy', 'pycocotools', 'filelock'],
    extras_require=EXTRAS,
    entry_points={
        'console_scripts': [
            'rebnn = rebnn_command:main',
            'rebnn-run = rebnn_command:run',
        ],
    },
    cmdclass={
        'bdist_wheel': PlatformWheel,
        'build': BuildAll,
        'build_py': BuildWithConfigs,
        'build_runtime': BuildRuntime,
    },
    distclass=WithRuntime,
    zip_safe=False,
)
