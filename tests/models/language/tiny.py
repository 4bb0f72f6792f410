"""Tiny random encoders in the layout of the Hugging Face hub, made where a test needs them."""

import torch
from transformers import AutoConfig, AutoModel, BertTokenizer

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)

SIZES_OF = {
    'bert': SIZES,
    'roberta': SIZES,
    'electra': dict(SIZES, embedding_size=16),
    'distilbert': dict(dim=32, n_layers=2, n_heads=2, hidden_dim=64),
    'modernbert': SIZES,
}
"""The same size in the words of each architecture."""

WORDS = ['a', 'the', 'film', 'movie', 'plot', 'actor', 'scene', 'story', 'is', 'was', 'not', 'very', 'good', 'bad', 'great', 'dull', 'fun', 'slow', 'bright', 'dark', 'one', 'two']
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
