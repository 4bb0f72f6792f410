"""The wheel for boards; tools/build_board_wheel.sh puts its files next to this one and runs it."""

import re
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

TEXT = """Runs models that rebnn_mm packed to one bit: `rebnn run model.onnx image.jpg`, or
`rebnn_mm.deploy.load` in Python. `rebnn zoo` lists the trained ones that come along.

It installs a part of the package rebnn_mm into the folder of that name. Install it on boards and servers, never
next to rebnn_mm itself: pip does not see that they clash, and removing one would break the other. The runtime refuses
to start where both are installed.
"""


class AnyPython(bdist_wheel):
    """The libraries belong to a processor but not to a version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return 'py3', 'none', super().get_tag()[2]


class ForOneProcessor(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    name='rebnn-runtime',
    version=re.search(r"__version__ = '(.+)'", Path('rebnn_mm/version.py').read_text(encoding='utf-8'))[1],
    description='Runs bit-packed models of rebnn_mm on boards, without torch',
    long_description=TEXT,
    long_description_content_type='text/markdown',
    author='The rebnn_mm developers',
    license='Apache-2.0',
    license_files=['LICENSE'],
    python_requires='>=3.10',
    packages=['rebnn_mm', 'rebnn_mm.deploy'],
    py_modules=['rebnn_command'],
    package_data={'rebnn_mm': ['zoo/*'], 'rebnn_mm.deploy': ['lib/*']},
    install_requires=['numpy', 'onnxruntime>=1.17', 'pillow'],
    extras_require={'hub': ['huggingface_hub>=0.34']},
    entry_points={'console_scripts': ['rebnn = rebnn_command:main', 'rebnn-run = rebnn_command:run']},
    cmdclass={'bdist_wheel': AnyPython},
    distclass=ForOneProcessor,
    zip_safe=False,
)
