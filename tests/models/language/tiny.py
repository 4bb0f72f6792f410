"""Tiny random encoders in the layout of the Hugging Face hub, made where a test needs them."""

import torch
from mmengine.structures import BaseDataElement
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertTokenizer

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)

SIZES_OF = {
    'bert': SIZES,
    'roberta': SIZES,
    'electra': dict(SIZES, embedding_size=16),
    'distilbert': dict(dim=32, n_layers=2, n_heads=2, hidden_dim=64),
    'modernbert': SIZES,
}
"""The same size in the words of each architecture."""

WORDS = [
    'a',
    'the',
    'film',
    'movie',
    'plot',
    'actor',
    'scene',
    'story',
    'is',
    'was',
    'not',
    'very',
    'good',
    'bad',
    'great',
    'dull',
    'fun',
    'slow',
    'bright',
    'dark',
    'one',
    'two',
]
"""What the tokenizer knows as whole words; it spells all others."""


def vocabulary():
    """Special tokens, words, letters and digits, as WordPiece lists them: about a hundred."""
    characters = 'abcdefghijklmnopqrstuvwxyz0123456789'
    special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    pieces = [*special, *".,!?'", *WORDS, *characters, *(f'##{c}' for c in characters)]
    return list(dict.fromkeys(pieces))


def tiny_encoder(folder, kind='bert', seed=0, **options):
    """Write config, random weights and a tokenizer of a small encoder.

    Args:
        folder: where to; made if it does not exist.
        kind: ``'bert'``, ``'distilbert'``, ``'roberta'``, ``'electra'`` or ``'modernbert'``.
        seed: of the weights.
        **options: further entries of the config.

    Returns:
        str: the folder, as ``encoder=`` of a config takes it.
    """
    tokens = vocabulary()
    special = dict(pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3)
    options = {'vocab_size': len(tokens), 'max_position_embeddings': 64, **special, **SIZES_OF[kind], **options}
    config = AutoConfig.for_model(kind, **options)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        AutoModel.from_config(config).save_pretrained(folder)
    BertTokenizer(vocab={token: index for index, token in enumerate(tokens)}).save_pretrained(folder)
    return str(folder)


def tiny_batch(folder, texts=('a good film', 'the plot was very dull , not fun .'), labels=None):
    """Inputs and data samples of some texts, as ``TextClassifier`` takes them."""
    tokens = AutoTokenizer.from_pretrained(folder)(list(texts), padding=True, return_tensors='pt')
    samples = []
    for index in range(len(texts)):
        label = index % 2 if labels is None else labels[index]
        samples.append(BaseDataElement(metainfo=dict(sample_idx=index, split='dev'), gt_label=torch.tensor(label)))
    return dict(tokens), samples


BINARY = dict(
    binarize=dict(
        linear=dict(type='ReBNNLinear', center='row', activation=dict(type='BinarySign', shift=None)),
        word_embedding=dict(type='BinaryEmbedding'),
    ),
    attention=dict(type='BinaryAttention'),
)
"""Options of a fully binary ``TextClassifier``."""
