"""A release is made in a clone: what is wrong is said first, and what fails leaves nothing behind."""

import shutil
import subprocess

import pytest

from tests.scripts import ROOT

TOOL = 'tools/release.sh'
NEXT = '9.8.7'


def git(folder, *arguments):
    about = ['-c', 'user.name=nobody', '-c', 'user.email=nobody@example.org']
    done = subprocess.run(['git', *about, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def release(folder, *arguments):
    return subprocess.run(['bash', TOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path):
    """A repository that holds no more than what is looked at before anything is built."""
    folder = tmp_path / 'tree'
    (folder / 'tools').mkdir(parents=True)
    shutil.copy(ROOT / TOOL, folder / 'tools')
    (folder / 'CHANGELOG.md').write_text(f'## [{NEXT}] - unreleased\n\n- Something.\n')
    git(folder, 'init', '--quiet', '--initial-branch', 'main')
    git(folder, 'add', '.')
    git(folder, 'commit', '--quiet', '--message', 'One')
    return folder


def changed(folder):
    (folder / 'new.txt').write_text('new')


@pytest.mark.parametrize(
    ('prepare', 'version', 'sentence'),
    [
        (lambda folder: None, '1.0', "'1.0' is none"),
        (changed, NEXT, 'changes that are not committed'),
        (lambda folder: git(folder, 'tag', f'v{NEXT}'), NEXT, f'the tag v{NEXT} exists'),
        (lambda folder: None, '9.9.0', "no line '## [9.9.0] - unreleased'"),
        (lambda folder: git(folder, 'checkout', '--quiet', '--detach'), NEXT, 'no branch is checked out'),
    ],
    ids=['version', 'changes', 'tag', 'changelog', 'branch'],
)
def test_what_is_wrong_is_one_sentence(tree, prepare, version, sentence):
    prepare(tree)
    done = release(tree, version)
    assert done.returncode == 1 and sentence in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tree / 'dist').exists()


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / 'clone'
    git(ROOT, 'clone', '--quiet', ROOT, folder)
    git(folder, 'config', 'user.name', 'nobody')
    git(folder, 'config', 'user.email', 'nobody@example.org')
    git(folder, 'checkout', '--quiet', '-B', 'main')
    changelog = folder / 'CHANGELOG.md'
    changelog.write_text(changelog.read_text().replace('## [0.1.0]', f'## [{NEXT}]', 1))
    git(folder, 'commit', '--quiet', '--all', '--message', 'The next version')
    return folder


@pytest.mark.slow
def test_archives_are_checked_and_the_tag_is_set(clone):
    done = release(clone, NEXT, 'x86_64')
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (clone / 'dist').iterdir())
    assert [name.partition(NEXT)[0] for name in names] == ['rebnn_mm-', 'rebnn_mm-', 'rebnn_runtime-']
    assert f"'{NEXT}'" in git(clone, 'show', f'v{NEXT}:rebnn_mm/version.py')
    assert git(clone, 'rev-parse', 'HEAD') == git(clone, 'rev-parse', f'v{NEXT}') and not git(clone, 'status', '-s')
    assert f'git push origin main v{NEXT}' in done.stderr


@pytest.mark.slow
def test_what_fails_leaves_nothing_behind(clone):
    (clone / 'runtime' / 'CMakeLists.txt').write_text('no CMake\n')
    git(clone, 'commit', '--quiet', '--all', '--message', 'A mistake')
    before = git(clone, 'rev-parse', 'HEAD')
    done = release(clone, NEXT, 'x86_64')
    assert done.returncode == 1 and 'not built, see above' in done.stderr
    assert git(clone, 'rev-parse', 'HEAD') == before and not git(clone, 'tag') and not (clone / 'dist').exists()
