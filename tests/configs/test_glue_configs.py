"""Every GLUE config: what it says, that it learns from a step, and that its predictions are scored."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATA_SAMPLERS, DATASETS, FUNCTIONS, DefaultScope

pytest.importorskip('transformers')

from lab.study.plan import read_chosen
from lab.tools.glue_results import run_name
from rebnn_mm.datasets import GLUE_TASKS
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.models.language import TextClassifier, save_pretrained
from rebnn_mm.registry import MODELS
from rebnn_mm.utils.encoders import encoder_names
from tests.datasets.glue_folder import write_glue
from tests.models.language.tiny import tiny_encoder

CONFIGS = Path(__file__).parents[2] / 'configs/glue'
ROWS = sorted(path.stem for path in CONFIGS.glob('*.py'))
RUNS = {
    run_name(folder.parent.name, row, folder.stem): (folder.parent.name, row, folder.stem)
    for folder in sorted(CONFIGS.parent.glob('_base_/datasets/glue/*/*.py'))
    for row in ROWS
}
TWINS = {
    name: run_name('bert_base', row, task)
    for name, (encoder, row, task) in RUNS.items()
    if encoder == 'minilm' and row != 'real' and name != 'minilm_rebnn_sst2'
}
"""MiniLM's rows, each with BERT-base's; full-precision ones differ in the recipe."""

RECIPES = {
    'mnli': (5e-5, 5, 128, 1000, 42),
    'qqp': (1e-4, 5, 128, 1000, 42),
    'qnli': (1e-4, 10, 128, 1000, 101),
    'sst2': (1e-4, 10, 64, 200, 42),
    'cola': (1e-4, 50, 64, 500, 42),
    'stsb': (1e-4, 20, 128, 200, 42),
    'mrpc': (2e-4, 20, 128, 200, 42),
    'rte': (1e-5, 20, 128, 200, 42),
}
"""BiBERT's table: rate, epochs, tokens, steps between evaluations, seed."""


@pytest.fixture(autouse=True)
def _scope_of_the_configs():
    with DefaultScope.overwrite_default_scope('mmengine'):
        yield


@cache
def config(name: str) -> Config:
    encoder, row, task = RUNS[name]
    return read_chosen(f'ENCODER={encoder} TASK={task} {row}.py', CONFIGS)


def task_of(name: str) -> str:
    return RUNS[name][2]


def is_real(name: str) -> bool:
    return RUNS[name][1] == 'real'


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """A GLUE folder, a tiny encoder, and a classifier for each number of labels."""
    root = tmp_path_factory.mktemp('files')
    encoder = tiny_encoder(root / 'encoder', vocab_size=101)
    for labels in (1, 2, 3):
        save_pretrained(TextClassifier(encoder, num_labels=labels), str(root / f'taught_{labels}'))
    write_glue(root / 'glue', rows=8)
    return root


def load(name: str, files: Path) -> Config:
    """The config with tiny files in place of its own."""
    cfg = deepcopy(config(name))
    splits = ('train', 'val', 'test')
    for key, directory in list(encoder_names(cfg, splits)):
        own = directory.startswith('work_dirs/')
        cfg.merge_from_dict({key: str(files / (f'taught_{cfg.num_labels}' if own else 'encoder'))})
    for split in splits:
        for dataset in [cfg[f'{split}_dataloader'].dataset, *cfg[f'{split}_dataloader'].dataset.get('datasets', [])]:
            if 'ann_file' in dataset:
                dataset.update(data_root=str(files / 'glue'), serialize_data=False)  # which would collect garbage
    return cfg


def batch_of(loader: Config) -> dict:
    dataset = DATASETS.build(loader.dataset)
    return FUNCTIONS.get(loader.collate_fn.type)([dataset[index] for index in range(len(dataset))])


def quick(name: str) -> bool:
    """Every method on one task, and every task with one method, make all configs; the rest are their combinations."""
    return task_of(name) == 'sst2' or RUNS[name][1] == 'rebnn'


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=() if quick(name) else pytest.mark.slow) for name in RUNS if name not in TWINS],
)
def test_learns_from_a_step_and_is_scored(name, files):
    cfg = load(name, files)
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    model.init_weights()
    assert any(isinstance(module, BinaryLayer) for module in model.modules()) != is_real(name)
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    before = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    losses = model.train_step(batch_of(cfg.train_dataloader), wrapper)
    assert all(torch.isfinite(value).all() for value in losses.values())
    moved = {key for key, parameter in model.named_parameters() if not torch.equal(parameter, before[key])}
    assert {key for key in before if key.endswith('.weight') and 'LayerNorm' not in key} <= moved
    evaluator = Evaluator([cfg.val_evaluator])
    model.eval()
    batch = batch_of(cfg.val_dataloader)
    evaluator.process(data_samples=model.val_step(batch), data_batch=batch)
    scores = evaluator.evaluate(len(batch['data_samples']))
    assert cfg.default_hooks.checkpoint.save_best in scores
    assert f'{cfg.default_hooks.checkpoint.save_best}_majority' in scores


@pytest.mark.parametrize('task', RECIPES)
def test_recipe_is_biberts(task):
    cfg = Config.fromfile(CONFIGS.parent / f'_base_/datasets/glue/bert_base/{task}.py')
    rate, epochs, tokens, interval, seed = RECIPES[task]
    assert cfg.optim_wrapper.optimizer == dict(type='BertAdam', lr=rate, weight_decay=0.01, clip_norm=1.0)
    assert cfg.train_dataloader.batch_size == 16
    assert cfg.train_cfg.max_iters == epochs * (GLUE_TASKS[task].train_rows // 16)
    assert cfg.train_cfg.val_interval == interval
    assert cfg.train_dataloader.dataset.pipeline == [
        dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=tokens)
    ]
    assert cfg.randomness.seed == seed
    assert cfg.param_scheduler == dict(type='WarmupLinearLR', warmup=0.1, by_epoch=False)


@pytest.mark.parametrize('name', RUNS)
def test_task_is_the_one_of_the_name(name):
    cfg = config(name)
    task = GLUE_TASKS[task_of(name)]
    for split in ('train', 'val', 'test'):
        dataset = cfg[f'{split}_dataloader'].dataset
        parts = dataset.get('datasets', [dataset])
        assert {part.task for part in parts} == {task.name}
        found = {part.ann_file: part.get('split', '') for part in parts}
        official = {'train.tsv': ''} if split == 'train' else task.splits
        assert found == {f'{task.folder}/{file}': value for file, value in official.items()}
    assert cfg.val_evaluator == cfg.test_evaluator == dict(type='GLUEMetric', task=task.name)
    assert cfg.default_hooks.checkpoint.save_best == f'glue/{task.selection}'
    assert cfg.model.num_labels == max(len(task.labels), 1)


@pytest.mark.parametrize('name', TWINS)
def test_small_network_has_the_model_of_the_large_one(name):
    small, large = (deepcopy(config(key).model) for key in (name, TWINS[name]))
    for model in (small, large):
        for key in ('encoder', 'teacher'):
            if key in model:
                model[key] = model[key].replace('minilm', 'bert_base')
    assert small == large
    assert config(name).custom_hooks == config(TWINS[name]).custom_hooks


@pytest.mark.parametrize('name', RUNS)
def test_rows_start_from_the_real_valued_one(name):
    cfg = config(name)
    network = RUNS[name][0]
    assert cfg.work_dir == f'work_dirs/{name}'
    if is_real(name):
        assert cfg.model.encoder == f'data/{"minilm" if network == "minilm" else "bert_base_uncased"}'
        assert dict(type='SavePretrainedHook') in cfg.custom_hooks
    else:
        sources = [cfg.model.encoder, *([cfg.model.teacher] if 'teacher' in cfg.model else [])]
        assert all(source.startswith(f'work_dirs/{network}_') and source.endswith('/pretrained') for source in sources)
        trained = {source.split('/')[1] for source in sources}
        assert trained <= RUNS.keys() and {task_of(run) for run in trained} == {task_of(name)}


def test_cpu_budget_batches_similar_lengths():
    cfg = config('minilm_sst2')
    assert cfg.train_dataloader.sampler.batch_size == cfg.train_dataloader.batch_size
    assert DATA_SAMPLERS.get(cfg.train_dataloader.sampler.type) is not None
    assert cfg.train_dataloader.num_workers == 0


def test_a_task_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match='_base_/datasets/glue/bert_base/sst3.py'):
        read_chosen('ENCODER=bert_base TASK=sst3 rebnn.py', CONFIGS)
