"""Packaging of rebnn_mm. Tool settings live in pyproject.toml, the tested set of versions in requirements.txt."""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent

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
    # Formatter and type checker are pinned: their verdict changes from version to version.
    'dev': ['pytest>=8', 'pytest-cov>=5', 'ruff==0.17.5', 'mypy==2.4.1', 'tensorboard'],
}


class BuildWithConfigs(build_py):
    """Copies ``configs`` into the package, where :func:`rebnn_mm.utils.config_dir.get_config_dir` finds them.

    An editable install keeps them where they are.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, 'rebnn_mm', 'configs')
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / 'configs', target, ignore=shutil.ignore_patterns('__pycache__'))


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
    py_modules=['rebnn_check_env'],
    install_requires=['torch', 'numpy', 'pycocotools'],
    extras_require=EXTRAS,
    entry_points={'console_scripts': ['rebnn-check-env = rebnn_check_env:main']},
    cmdclass={'build_py': BuildWithConfigs},
    zip_safe=False,
)
