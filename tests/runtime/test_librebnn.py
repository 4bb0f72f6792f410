"""Builds librebnn with its own test programs, plain and with sanitizers, and runs them on every instruction set."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import PIL.Image
import pytest
from filelock import FileLock

from rebnn_mm.deploy import load
from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.native_library import ABI, instruction_sets

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / 'runtime'
# Kept between runs, so that only what has changed is compiled again; git ignores it.
BUILDS = ROOT / 'build' / 'runtime-tests'
# The folder of the set-up, which has compiled the library with the options of a plain build.
SET_UP = ROOT / 'build' / 'runtime'
ISAS = instruction_sets() or ['portable']
SKIPPED = 77
COMPILERS = (('C_COMPILER', 'gcc'), ('CXX_COMPILER', 'g++'))
FUZZ_CASES = 1000
CLASSIFIER = zoo_path('zoo:cifar10-resnet20')
DETECTOR = zoo_path('zoo:blood-cells-nano')
MODELS = [
    pytest.param(CLASSIFIER, id='classifier'),
    pytest.param(DETECTOR, id='detector'),
    pytest.param(zoo_path('zoo:blood-cells'), id='two-stages'),
]


def tool(name: str) -> str:
    """The program of that name, next to this Python or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f'there is no {name} here')
    return found


def build(folder: Path, targets: list[str], sanitizer: str = '', *options: str) -> Path:
    """Configures and builds; returns the folder of the build. Other processes of the tests wait for it."""
    configure = [tool('cmake'), '-S', RUNTIME, '-B', folder, '-DREBNN_BUILD_TESTS=ON', f'-DREBNN_SANITIZE={sanitizer}']
    configure += options
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f'{folder}.lock'):
        for command in (configure, [tool('cmake'), '--build', folder, '--target', *targets]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


def require_sanitizer(name: str, folder: Path) -> None:
    """Skips where the compiler has no such sanitizer or the kernel does not let it run."""
    source, program = folder / 'empty.cpp', folder / 'empty'
    source.write_text('int main() {}')
    compiler = os.environ.get('CXX') or tool('c++')
    compiled = subprocess.run([compiler, f'-fsanitize={name}', source, '-o', program], capture_output=True, text=True)
    if compiled.returncode or subprocess.run([program], capture_output=True).returncode:
        pytest.skip(f'-fsanitize={name} does not work here')


def run_program(program: Path, isa: str, *arguments: object) -> str:
    """What the program prints; fails with it, or skips where this processor lacks the instruction set."""
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, 'REBNN_ISA': isa}
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'instruction set: {isa}' in done.stdout
    return done.stdout


@pytest.fixture(scope='module')
def plain() -> Path:
    programs = [
        'test_sums',
        'test_steps',
        'test_stem',
        'test_integers',
        'test_threads',
        'test_arguments',
        'test_image',
        'test_regions',
        'test_text',
        'test_model',
        'bench_conv',
    ]
    cache = SET_UP / 'CMakeCache.txt'
    is_here = cache.exists() and f'CMAKE_HOME_DIRECTORY:INTERNAL={RUNTIME}\n' in cache.read_text()
    return build(SET_UP if is_here else BUILDS / 'plain', ['rebnn', 'rebnn_static', *programs])


@pytest.fixture(scope='module')
def address(tmp_path_factory) -> Path:
    require_sanitizer('address,undefined', tmp_path_factory.mktemp('address'))
    return build(
        BUILDS / 'address',
        [
            'fuzz_conv',
            'test_integers',
            'test_arguments',
            'test_image',
            'test_model',
            'test_regions',
            'test_stem',
            'test_text',
            'test_threads',
        ],
        'address,undefined',
    )


@pytest.fixture(scope='module')
def thread(tmp_path_factory) -> Path:
    require_sanitizer('thread', tmp_path_factory.mktemp('thread'))
    return build(BUILDS / 'thread', ['test_threads'], 'thread')


@pytest.mark.parametrize('isa', ISAS)
def test_sums_equal_integer_arithmetic(plain, isa):
    printed = run_program(plain / 'tests' / 'test_sums', isa, 20)
    (cases,) = re.findall(r'(\d+) convolutions .* every sum is equal', printed)
    assert int(cases) > 900


@pytest.mark.parametrize('isa', ISAS)
def test_steps_after_the_sum_equal_scalar_code(plain, isa):
    assert 'every bit is equal' in run_program(plain / 'tests' / 'test_steps', isa, 10)


@pytest.mark.parametrize('isa', ISAS)
def test_stem_equals_sums_in_double_precision(plain, isa):
    assert '18 cases' in run_program(plain / 'tests' / 'test_stem', isa)


@pytest.mark.parametrize('isa', ISAS)
def test_int8_layers_equal_integer_arithmetic(plain, isa):
    assert '126 layers, every number is equal' in run_program(plain / 'tests' / 'test_integers', isa)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_int8_layers_under_address_sanitizer(address, isa):
    run_program(address / 'tests' / 'test_integers', isa, 2)


@pytest.mark.parametrize('isa', ISAS)
def test_threads_and_memory(plain, isa):
    assert 'run by 4 threads at once' in run_program(plain / 'tests' / 'test_threads', isa)


@pytest.mark.parametrize('isa', ISAS)
def test_wrong_arguments_give_sentences(plain, isa):
    assert 'every wrong argument' in run_program(plain / 'tests' / 'test_arguments', isa)


@pytest.mark.parametrize('isa', ISAS)
def test_attention_and_embedding_equal_integer_arithmetic(plain, isa):
    assert 'every number is equal' in run_program(plain / 'tests' / 'test_text', isa, 10, 50, 1)


@pytest.mark.parametrize('isa', ISAS)
def test_images_equal_scalar_code(plain, isa):
    assert 'every number is equal' in run_program(plain / 'tests' / 'test_image', isa, 300, 1)


@pytest.mark.parametrize('isa', ISAS)
def test_regions_equal_sums_over_their_samples(plain, isa):
    assert '100 cases' in run_program(plain / 'tests' / 'test_regions', isa, 100, 1)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_regions_under_address_sanitizer(address, isa):
    assert '500 cases' in run_program(address / 'tests' / 'test_regions', isa, 500, 2)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_images_under_address_sanitizer(address, isa):
    assert 'every number is equal' in run_program(address / 'tests' / 'test_image', isa, 1000, 2)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_attention_and_embedding_under_address_sanitizer(address, isa):
    assert 'every number is equal' in run_program(address / 'tests' / 'test_text', isa, 40, 50, 2)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_damaged_input_under_address_sanitizer(address, isa):
    printed = run_program(address / 'tests' / 'fuzz_conv', isa, FUZZ_CASES, 3)
    assert f'{FUZZ_CASES} cases' in printed


@pytest.mark.parametrize('isa', ISAS)
@pytest.mark.parametrize('model', MODELS)
def test_damaged_and_hostile_models(plain, isa, model):
    printed = run_program(plain / 'tests' / 'test_model', isa, model, 200, 1)
    refused, changed, ran = map(int, re.findall(r'\d+', printed.splitlines()[-1]))
    assert refused > 200 and changed == 200 and 0 < ran < changed


@pytest.mark.slow
@pytest.mark.parametrize('model', MODELS)
def test_damaged_and_hostile_models_under_address_sanitizer(address, model):
    run_program(address / 'tests' / 'test_model', ISAS[-1], model, FUZZ_CASES, 2)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_wrong_arguments_under_address_sanitizer(address, isa):
    run_program(address / 'tests' / 'test_arguments', isa)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_shares_of_threads_under_address_sanitizer(address, isa):
    run_program(address / 'tests' / 'test_threads', isa)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_stem_under_address_sanitizer(address, isa):
    run_program(address / 'tests' / 'test_stem', isa)


@pytest.mark.slow
@pytest.mark.parametrize('isa', ISAS)
def test_threads_share_nothing_by_accident(thread, isa):
    run_program(thread / 'tests' / 'test_threads', isa)


def test_unknown_instruction_set_is_refused(plain):
    command = [plain / 'tests' / 'test_arguments']
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, 'REBNN_ISA': 'mmx'})
    assert done.returncode == SKIPPED
    assert f"REBNN_ISA is 'mmx', which is not one of {', '.join(ISAS)}" in done.stdout


def test_library_needs_the_c_library_only_and_shows_its_interface_only(plain):
    library = plain / 'librebnn.so'
    dynamic = subprocess.run([tool('readelf'), '-d', library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r'NEEDED.*\[(.*)\]', dynamic)
    assert needed
    assert all(name.startswith(('libc.so', 'ld-linux')) for name in needed), needed
    assert re.findall(r'SONAME.*\[(.*)\]', dynamic) == [f'librebnn.so.{ABI}']
    names = subprocess.run([tool('nm'), '-D', '--defined-only', library], capture_output=True, text=True, check=True)
    assert {line.split()[-1] for line in names.stdout.splitlines()} == declared()


def declared() -> set[str]:
    """The functions of the C interface."""
    return set(re.findall(r'\b(rebnn_\w+)\(', (RUNTIME / 'include' / 'rebnn.h').read_text()))


@pytest.mark.slow
def test_each_library_for_windows_shows_its_own_interface_only():
    prefix = 'x86_64-w64-mingw32-'
    compilers = [f'-DCMAKE_C_COMPILER={tool(prefix + "gcc")}', f'-DCMAKE_CXX_COMPILER={tool(prefix + "g++")}']
    folder = build(BUILDS / 'windows', ['rebnn', 'rebnn_ort'], '', '-DCMAKE_SYSTEM_NAME=Windows', *compilers)
    for library, expected in ((folder / 'librebnn.dll', declared()), (folder / 'ort' / 'librebnn_ort.dll', None)):
        listed = subprocess.run([tool(prefix + 'objdump'), '-p', library], capture_output=True, text=True, check=True)
        names = listed.stdout.split('[Ordinal/Name Pointer] Table')[1].split('\n\n')[0]
        shown = set(re.findall(r'\] (?:\+base\[ *\d+\] +\w+ )?(\w+)$', names, flags=re.MULTILINE))
        assert shown == (expected or {'RegisterCustomOps'})


def test_a_processor_with_the_other_byte_order_is_refused(tmp_path):
    """Without one at hand: with a compiler that says it were for one."""
    (tmp_path / 'any.cpp').write_text('#include "conv.h"\n')
    compiler = os.environ.get('CXX') or tool('c++')
    flags = ['-std=c++17', f'-I{RUNTIME / "src"}', f'-I{RUNTIME / "include"}', '-fsyntax-only', tmp_path / 'any.cpp']
    assert subprocess.run([compiler, *flags], capture_output=True).returncode == 0
    flags += ['-U__BYTE_ORDER__', '-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__']
    refused = subprocess.run([compiler, *flags], capture_output=True, text=True)
    assert refused.returncode and 'librebnn needs a processor whose first byte is the lowest' in refused.stderr


def test_code_for_one_processor_is_never_shared(plain):
    """A function with weak linkage in such a file could replace the same function of code that runs everywhere."""
    objects = list((plain / 'CMakeFiles' / 'rebnn_objects.dir' / 'src').glob('*.o'))
    assert len(objects) > 2 * len(ISAS)
    for path in objects:
        names = subprocess.run([tool('nm'), path], capture_output=True, text=True, check=True).stdout
        assert not re.findall(r' [WVu] (\S+)', names), path.name


def test_the_archive_stays_below_a_megabyte(plain):
    """A board takes it whole, and every tile of a template adds to it."""
    assert (plain / 'librebnn_static.a').stat().st_size < 2**20


def test_the_library_names_each_instruction_set_of_the_list():
    lines = (RUNTIME / 'src' / 'isa_list.h').read_text()
    processor = {'x86_64': 'X86_64', 'aarch64': 'AARCH64'}.get(platform.machine(), 'ANY')
    assert re.findall(rf'^REBNN_(?:{processor}|ANY)\((\w+),', lines, flags=re.MULTILINE) == ISAS


@pytest.mark.skipif(platform.machine() != 'x86_64', reason='emulates processors of x86-64 with a program for them')
@pytest.mark.parametrize(
    ('core', 'expected'),
    [
        ('Haswell', 'avx2'),
        ('Haswell,avx2=off', 'ssse3'),
        ('Haswell,fma=off', 'ssse3'),
        ('Haswell,xsave=off', 'ssse3'),  # its system keeps no AVX registers
        ('Nehalem', 'ssse3'),
        ('qemu64', 'portable'),
    ],
)
def test_a_processor_gets_the_kernels_that_it_has(plain, core, expected):
    environment = {name: value for name, value in os.environ.items() if name != 'REBNN_ISA'}
    command = [tool('qemu-x86_64'), '-cpu', core, plain / 'tests' / 'test_arguments']
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert f'instruction set: {expected}\n' in done.stdout, done.stdout + done.stderr


def test_benchmark_compares_every_instruction_set(plain):
    done = subprocess.run([plain / 'tests' / 'bench_conv', '3'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tables = re.findall(r'^(\w+)\n.*?all 16 of ResNet-18\s+([\d.]+) ms', done.stdout, flags=re.MULTILINE | re.DOTALL)
    assert tables[0][0] == 'portable'
    assert {name for name, _ in tables} <= set(ISAS)
    assert all(float(ms) > 0 for _, ms in tables)


def found_in_the_photo() -> str:
    """What the program that detects prints, by ONNX Runtime."""
    photo = str(zoo_path('zoo:BloodImage_00021.jpg'))
    lines = []
    for one in load('zoo:blood-cells-nano')(photo).at_least(0.5):
        lines.append(' '.join([f'{one.label} {one.score:.2f}', *(f'{side:.0f}' for side in one.box)]))
    return '\n'.join(lines) + '\n'


def examples() -> list[tuple[str, Callable[[], str], Path]]:
    """Programs in C for users, what they print, and their model: that of the page, a classifier and a detector."""
    page = (ROOT / 'docs' / 'runtime.md').read_text()
    (source,) = re.findall(r'```c\n(.*?)```', page, flags=re.DOTALL)
    (printed,) = re.findall(r'```text\n(.*?)```', page, flags=re.DOTALL)
    scores = '0.22 0.00 0.54 0.02 0.17 0.01 0.02 0.00 0.03 0.00 \n'
    classify, detect = ((ROOT / 'demo' / f'{name}.c').read_text() for name in ('classify', 'detect'))
    return [
        (source, lambda: printed, CLASSIFIER),
        (classify, lambda: scores, CLASSIFIER),
        (detect, found_in_the_photo, DETECTOR),
    ]


@pytest.mark.parametrize(('source', 'printed', 'model'), examples(), ids=['page', 'classify', 'detect'])
def test_an_example_prints_what_it_should(plain, tmp_path, source, printed, model):
    (tmp_path / 'example.c').write_text(source)
    PIL.Image.open(zoo_path('zoo:BloodImage_00021.jpg')).convert('RGB').save(tmp_path / 'photo.ppm')
    compiler = os.environ.get('CC') or tool('cc')
    flags = ['-std=c11', '-Wall', '-Wextra', '-Werror', f'-I{RUNTIME / "include"}']
    link = [f'-L{plain}', '-lrebnn', f'-Wl,-rpath,{plain}', '-o', 'example']
    compiled = subprocess.run([compiler, *flags, 'example.c', *link], cwd=tmp_path, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    command = ['./example', model, 'photo.ppm']
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == printed()


@pytest.mark.parametrize(
    ('compiler', 'options', 'others'),
    [
        ('aarch64-linux-gnu-g++', ['-march=armv8.2-a+fp16+dotprod'], {'integer_dot_neon', 'stem_half_neon'}),
        ('arm-linux-gnueabihf-g++', ['-march=armv7-a', '-mfpu=neon-vfpv4'], {'real_vfpv4'}),
    ],
)
def test_the_kernels_for_arm_compile(compiler, options, others):
    """The rest of their tests is slow; without this one a change of the kernels' list could break them unseen."""
    names = {'isa', 'neon', 'real_neon', 'real_portable', 'stem'} | others
    sources = [RUNTIME / 'src' / f'{name}.cpp' for name in names]
    flags = ['-std=c++17', '-fsyntax-only', '-Wno-psabi', f'-I{RUNTIME / "include"}']
    done = subprocess.run([tool(compiler), *flags, *options, *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_neon_of_32_bits_is_chosen_where_the_core_has_it():
    compilers = [f'-DCMAKE_{name}={tool(f"arm-linux-gnueabihf-{program}")}' for name, program in COMPILERS]
    system = ['-DCMAKE_SYSTEM_NAME=Linux', '-DCMAKE_SYSTEM_PROCESSOR=arm']
    program = build(BUILDS / 'arm', ['test_arguments'], '', *system, *compilers) / 'tests' / 'test_arguments'
    for core, wanted, printed in (
        ('cortex-a7', '', 'instruction set: neon_vfpv4\n'),
        ('cortex-a9', '', 'instruction set: neon\n'),
        ('cortex-a7,neon=off', '', 'instruction set: portable\n'),
        ('cortex-a7,neon=off', 'neon', "skipped: REBNN_ISA is 'neon', which this processor lacks"),
    ):
        command = [tool('qemu-arm'), '-cpu', core, '-L', '/usr/arm-linux-gnueabihf', program]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, 'REBNN_ISA': wanted})
        assert printed in done.stdout, core


@pytest.mark.slow
def test_a_board_gets_the_kernels_of_its_slowest_core(tmp_path):
    compilers = [f'-DCMAKE_{name}={tool(f"aarch64-linux-gnu-{program}")}' for name, program in COMPILERS]
    system = ['-DCMAKE_SYSTEM_NAME=Linux', '-DCMAKE_SYSTEM_PROCESSOR=aarch64']
    program = build(BUILDS / 'aarch64', ['test_arguments'], '', *system, *compilers) / 'tests' / 'test_arguments'
    # What the emulated program opens comes from this folder if it is there.
    cores = tmp_path / 'sys' / 'devices' / 'system' / 'cpu'
    (tmp_path / 'lib').symlink_to('/usr/aarch64-linux-gnu/lib')
    for registers, expected in (
        (['410fd034'] * 4, 'neon_a55'),  # Cortex-A53, as on a Raspberry Pi 3
        (['411fd050'], 'neon_a55'),  # Cortex-A55
        (['410fd034', '410fd082'], 'neon_a55'),  # with a Cortex-A72, as on an RK3399
        (['410fd083'] * 4, 'neon'),  # Cortex-A72, as on a Raspberry Pi 4
        (['510fd034'], 'neon'),  # another manufacturer's
    ):
        shutil.rmtree(cores, ignore_errors=True)
        for core, register in enumerate(registers):
            folder = cores / f'cpu{core}' / 'regs' / 'identification'
            folder.mkdir(parents=True)
            (folder / 'midr_el1').write_text(f'0x00000000{register}\n')
        environment = {name: value for name, value in os.environ.items() if name != 'REBNN_ISA'}
        command = [tool('qemu-aarch64'), '-L', tmp_path, program]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f'instruction set: {expected}\n' in done.stdout, registers


def every_digit() -> str:
    """The program that detects, printing all bits of all that it finds."""
    source = (ROOT / 'demo' / 'detect.c').read_text()
    for printed, exact in (('%.2f', '%a'), ('%.0f', '%a'), ('scores[i] >= 0.5f', 'scores[i] >= 0')):
        assert printed in source
        source = source.replace(printed, exact)
    return source


@pytest.mark.slow
@pytest.mark.skipif('avx2' not in ISAS, reason='compares with kernels of x86-64')
@pytest.mark.parametrize(
    ('machine', 'triple', 'core', 'isa', 'same'),
    [
        ('aarch64', 'aarch64-linux-gnu', 'cortex-a53', 'neon_a55', 'avx2'),
        ('aarch64', 'aarch64-linux-gnu', 'cortex-a76', 'neon', 'avx2'),  # with SDOT
        ('aarch64', 'aarch64-linux-gnu', 'cortex-a53', 'portable', 'portable'),
        ('arm', 'arm-linux-gnueabihf', 'cortex-a7', 'neon_vfpv4', 'avx2'),
        ('arm', 'arm-linux-gnueabihf', 'cortex-a9', 'neon', 'portable'),
        ('arm', 'arm-linux-gnueabihf', 'cortex-a9', 'portable', 'portable'),
    ],
)
def test_detectors_of_arm_boards_by_emulation(plain, tmp_path, machine, triple, core, isa, same):
    """The same bits of boxes and scores as on x86-64."""
    compilers = [f'-DCMAKE_{name}={tool(f"{triple}-{program}")}' for name, program in COMPILERS]
    system = ['-DCMAKE_SYSTEM_NAME=Linux', f'-DCMAKE_SYSTEM_PROCESSOR={machine}']
    library = build(BUILDS / machine, ['rebnn_static'], '', *system, *compilers) / 'librebnn_static.a'
    (tmp_path / 'detect.c').write_text(every_digit())
    flags = ['-std=c11', f'-I{RUNTIME / "include"}', tmp_path / 'detect.c']
    for compiler, archive, program in (
        (tool(f'{triple}-gcc'), library, 'there'),
        (tool('cc'), plain / 'librebnn_static.a', 'here'),
    ):
        subprocess.run([compiler, *flags, archive, '-static', '-o', tmp_path / program], check=True)
    photo = tmp_path / 'photo.ppm'
    for name, picture in (
        ('blood-cells-nano', 'BloodImage_00021.jpg'),
        ('blood-cells-tiny', 'BloodImage_00021.jpg'),
        ('board-defects', 'board.png'),
    ):
        PIL.Image.open(zoo_path(f'zoo:{picture}')).convert('RGB').resize((640, 480)).save(photo)
        printed = [
            run_example([*command, zoo_path(f'zoo:{name}'), photo], kernels)
            for command, kernels in (
                ([tool(f'qemu-{machine}'), '-cpu', core, tmp_path / 'there'], isa),
                ([tmp_path / 'here'], same),
            )
        ]
        assert printed[0] == printed[1] and len(printed[0].splitlines()) > 50


def run_example(command: list, isa: str) -> str:
    environment = {**os.environ, 'REBNN_ISA': isa}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ('machine', 'cores'),
    [
        ('aarch64', {core: ['neon', 'neon_a55'] for core in ('cortex-a53', 'cortex-a72', 'cortex-a76', 'max')}),
        ('arm', {'cortex-a7': ['neon', 'neon_vfpv4'], 'cortex-a9': ['neon']}),
    ],
)
def test_cores_of_arm_boards_by_emulation(machine, cores):
    """The whole suite, on a small part of the grids, for the instruction sets of some cores."""
    command = ['bash', RUNTIME / 'tests' / 'run_qemu.sh', BUILDS / machine, '200', '100']
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, 'MACHINE': machine})
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [f'{core}, {isa}' for core, kernels in cores.items() for isa in kernels]
    for run in [f'{next(iter(cores))}, portable', *runs]:
        assert f'--- {run}\n' in done.stdout
    assert done.stdout.count('every sum is equal') == 1 + len(runs)
    # Where the core has SDOT.
    assert done.stdout.count(' of both forms, every number is equal') == (4 if machine == 'aarch64' else 0)
