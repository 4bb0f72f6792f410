"""The list of the paper's rows: complete, pointing at configs that exist, with the paper's numbers."""

from pathlib import Path

import pytest
import yaml
from mmengine.config import Config

ROOT = Path(__file__).parents[2]
METAFILE = yaml.safe_load((ROOT / 'configs' / 'metafile.yml').read_text())
MODELS = {model['Name']: model for model in METAFILE['Models']}

# Configs besides the rows: first stages, and other readings of a row.
NO_ROW = {
    'resnet18_react_stage1_imagenet',
    'resnet34_react_stage1_imagenet',
    'faster_rcnn_r18_fpn_coco',
    'faster_rcnn_r18_fpn_rebnn_coco',
    'ssd300_vgg16_rebnn_adam_coco',
}

# A few numbers of each of the paper's three tables.
PINNED = {
    'resnet18_imagenet': (69.6, 89.2),
    'resnet18_xnor_imagenet': (51.2, 73.2),
    'resnet18_rebnn_imagenet': (61.6, 83.4),
    'resnet18_rebnn_two_stage_imagenet': (66.9, 87.1),
    'resnet34_react_imagenet': (69.3, 88.6),
    'resnet34_rebnn_two_stage_imagenet': (69.9, 88.9),
    'resnet18_gamma_1e-4_imagenet': (66.4, 86.7),
    'resnet18_gamma_max_imagenet': (66.3, 86.2),
    'faster_rcnn_r18_dorefa44_coco': (22.9, 38.6, 23.7, 8.0, 24.9, 36.3),
    'faster_rcnn_r18_rebnn_coco': (19.6, 37.6, 20.4, 7.0, 20.1, 33.1),
    'ssd300_vgg16_bidet_coco': (13.2, 28.3, 10.5, 5.1, 14.3, 20.5),
    'ssd300_vgg16_rebnn_coco': (18.1, 33.9, 17.5, 4.2, 17.9, 25.9),
}


def test_every_row_has_its_config_and_every_config_its_row():
    configs = {
        path.stem for folder in ('coco', 'imagenet', 'ablation') for path in (ROOT / 'configs' / folder).glob('*.py')
    }
    assert configs - NO_ROW == MODELS.keys()
    assert configs > NO_ROW


@pytest.mark.parametrize('model', MODELS.values(), ids=MODELS)
def test_entry_is_whole(model):
    path = ROOT / model['Config']
    assert path.is_file() and path.stem == model['Name']
    assert model['In Collection'] in {collection['Name'] for collection in METAFILE['Collections']}
    (result,) = model['Results']
    assert result['Source'] == 'paper'
    image = result['Task'] == 'Image Classification'
    assert len(result['Metrics']) == (2 if image else 6)
    assert all(isinstance(value, float) and 0 < value < 100 for value in result['Metrics'].values())


@pytest.mark.parametrize('name', PINNED)
def test_numbers_are_the_papers(name):
    assert tuple(MODELS[name]['Results'][0]['Metrics'].values()) == PINNED[name]


@pytest.mark.parametrize('name', [name for name in MODELS if name.startswith('resnet')])
def test_the_comment_in_the_config_says_the_same(name):
    text = ' '.join((ROOT / MODELS[name]['Config']).read_text().replace('#', ' ').split())
    first, fifth = MODELS[name]['Results'][0]['Metrics'].values()
    assert f"top-1 {first}, top-5 {fifth} (the paper's numbers)" in text


@pytest.mark.parametrize('name', [name for name, model in MODELS.items() if 'Stages' in model['Metadata']])
def test_two_stages_are_those_with_a_teacher(name):
    model = MODELS[name]
    taught = 'teacher' in Config.fromfile(ROOT / model['Config']).model
    assert model['Metadata']['Stages'] == (2 if taught else 1)


def test_collections_name_their_papers():
    for collection in METAFILE['Collections']:
        assert (ROOT / collection['README']).is_file()
        assert collection['Paper']['URL'].startswith('https://arxiv.org/abs/')
    used = {model['In Collection'] for model in MODELS.values()}
    assert used == {collection['Name'] for collection in METAFILE['Collections']}


def test_the_index_is_read_by_the_library_that_mim_reads_it_with():
    read = pytest.importorskip('modelindex.load_model_index')
    index = read.load(str(ROOT / 'model-index.yml'))
    index.build_models_with_collections()
    assert {model.name: model.config for model in index.models} == {name: m['Config'] for name, m in MODELS.items()}
    assert all(model.results[0].metrics and model.in_collection for model in index.models)


def test_mim_searches_by_collection_data_set_and_score():
    search = pytest.importorskip('mim.commands.search')
    table = search.convert2df(search.load(str(ROOT / 'model-index.yml')))
    found = search.filter_by_training_datasets(search.filter_by_models(table, ['ReBNN']), ['COCO'])
    assert set(found.index) == {'faster_rcnn_r18_rebnn_coco', 'ssd300_vgg16_rebnn_coco'}
    found = search.filter_by_conditions(table, 'top_1_accuracy>69')
    assert {name for name, row in found.iterrows() if row['bits'] == '1/1'} == {
        'resnet34_react_imagenet', 'resnet34_rebnn_two_stage_imagenet',
    }  # fmt: skip
