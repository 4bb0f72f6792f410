"""Tokenising and batching, in one process and in workers."""

import pickle
import warnings

import pytest
import torch
from mmengine.model import BaseDataPreprocessor
from mmengine.registry import FUNCTIONS, TRANSFORMS
from torch.utils.data import DataLoader

pytest.importorskip('transformers')

from rebnn_mm.datasets import GLUEDataset, TokenizeText, glue_collate
from tests.datasets.glue_folder import write_rows
from tests.models.language.tiny import tiny_encoder


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('encoder'))


def item(text, pair=None, label=1):
    pairs = {} if pair is None else {'text_pair': pair}
    return {'text': text, **pairs, 'gt_label': label, 'split': 'matched', 'sample_idx': 5}


def test_sentence_and_pair(encoder):
    tokenize = TRANSFORMS.build(dict(type='TokenizeText', tokenizer=encoder, max_length=16))
    one = tokenize(item('The good film'))
    words = tokenize._loaded.convert_ids_to_tokens(one['inputs']['input_ids'])
    assert words == ['[CLS]', 'the', 'good', 'film', '[SEP]']
    two = tokenize(item('good', 'bad plot'))
    assert two['inputs']['token_type_ids'].tolist() == [0, 0, 0, 1, 1, 1]
    assert two['inputs']['attention_mask'].tolist() == [1] * 6
    sample = two['data_samples']
    assert (sample.sample_idx, sample.split, sample.gt_label) == (5, 'matched', 1)


def test_labels_stay_on_the_host_when_a_batch_moves(encoder):
    tokenize = TokenizeText(encoder, max_length=8)
    batch = glue_collate([tokenize(item('good', label=label)) for label in (1, 2.5)])
    moved = BaseDataPreprocessor().to('meta')(batch)
    assert [sample.gt_label for sample in moved['data_samples']] == [1, 2.5]
    assert moved['inputs']['input_ids'].is_meta


def test_the_longer_sentence_is_cut_first(encoder):
    tokenize = TokenizeText(encoder, max_length=8)
    tokens = tokenize(item('good bad', 'film film film film film plot'))['inputs']
    words = tokenize._loaded.convert_ids_to_tokens(tokens['input_ids'])
    assert words == ['[CLS]', 'good', 'bad', '[SEP]', 'film', 'film', 'film', '[SEP]']
    assert len(TokenizeText(encoder, max_length=12, pad=True)(item('good'))['inputs']['input_ids']) == 12


def test_batch_is_padded_to_its_longest_item_on_the_tokenizers_side(encoder):
    tokenize = TokenizeText(encoder, max_length=16)
    items = [tokenize(item(text)) for text in ('good', 'the film is bad')]
    batch = FUNCTIONS.get('glue_collate')(items)
    pad = tokenize._loaded.pad_token_id
    assert batch['inputs']['input_ids'].shape == (2, 6)
    assert batch['inputs']['input_ids'][0, 3:].tolist() == [pad] * 3
    assert batch['inputs']['attention_mask'].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6]
    assert [sample.sample_idx for sample in batch['data_samples']] == [5, 5]
    for element in items:
        element['padding'] = {**element['padding'], 'input_ids': 7, 'side': 'left'}
    left = glue_collate(items)['inputs']
    assert left['input_ids'][0, :3].tolist() == [7, 7, 7]
    assert left['attention_mask'][0].tolist() == [0, 0, 0, 1, 1, 1]


def test_pickles_without_its_tokenizer(encoder):
    tokenize = TokenizeText(encoder, max_length=8)
    before = tokenize(item('good'))
    copy = pickle.loads(pickle.dumps(tokenize))
    assert copy._loaded is None and tokenize._loaded is not None
    assert torch.equal(copy(item('good'))['inputs']['input_ids'], before['inputs']['input_ids'])


def test_a_worker_gives_the_same_batches_without_a_warning(encoder, tmp_path, capfd):
    path = write_rows(tmp_path / 'train.tsv', 'mrpc', 12)
    dataset = GLUEDataset('mrpc', str(path), pipeline=[TokenizeText(encoder, max_length=24)])
    _ = dataset[0]  # the tokenizer of this process is in use when the worker is forked
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        batches = {
            count: list(DataLoader(dataset, batch_size=4, num_workers=count, collate_fn=glue_collate))
            for count in (0, 1)
        }
    for alone, forked in zip(batches[0], batches[1], strict=True):
        assert alone['inputs'].keys() == forked['inputs'].keys()
        assert all(torch.equal(alone['inputs'][name], forked['inputs'][name]) for name in alone['inputs'])
        labels = [[sample.gt_label for sample in batch['data_samples']] for batch in (alone, forked)]
        assert labels[0] == labels[1]
    assert 'parallelism' not in capfd.readouterr().err


def test_missing_tokenizer_is_named_when_it_is_needed(tmp_path):
    tokenize = TokenizeText(tmp_path / 'gone', max_length=8)
    with pytest.raises(FileNotFoundError, match='TokenizeText: no tokenizer at .*gone') as caught:
        tokenize(item('good'))
    assert '\n' not in str(caught.value)
