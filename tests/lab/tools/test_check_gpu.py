"""The command runs its parts as processes and says what they find."""

import json

import pytest
import torch

TOOL = 'lab/tools/check_gpu.py'


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs a machine without a GPU')
def test_without_a_gpu_it_says_so(stop_tool):
    said = stop_tool(TOOL)
    assert 'sees no GPU, so there is nothing to prove' in said
    assert 'ResNet-18 1.5, Faster R-CNN C4 1.5, ResNet-20, compiled 1.3 times the real one) are not measured' in said


@pytest.mark.slow
def test_a_part_on_a_cpu_and_its_report(run_tool, tmp_path):
    done = run_tool(TOOL, '--device', 'cpu', '--parts', 'sync', '--json', tmp_path / 'gpu.json')
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / 'gpu.json').read_text())
    assert report['machine']['torch'] == torch.__version__
    part = report['parts']['sync']
    assert part['state'] == 'passed' and len(part['findings']) == 3
    assert 'passed    ResNet-18, react, float32, sums' in done.stdout
    assert 'sync: 3 checks, 0 failed' in done.stdout


def test_a_part_that_takes_too_long_is_ended_and_the_next_one_runs(run_tool):
    done = run_tool(TOOL, '--device', 'cpu', '--parts', 'layers', 'sync', '--limit', 0.1)
    assert done.returncode == 1
    assert done.stdout.count('did not end within 0.1 s') == 2
    assert 'failed    sync: 1 checks, 1 failed' in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize('part', ['processes', 'cost', 'training'])
def test_parts_that_are_commands_pass_on_a_cpu(run_tool, part):
    done = run_tool(TOOL, '--device', 'cpu', '--parts', part)
    assert done.returncode == 0, done.stdout + done.stderr
