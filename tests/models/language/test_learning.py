"""A 1-bit BERT learns: it counts words, which needs embeddings, attention and both linear layers of a block."""

import torch
from mmengine.structures import BaseDataElement
from torch.optim.lr_scheduler import LambdaLR
from transformers import BertConfig

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.models.language import TextClassifier
from tests.models.language.tiny import BINARY

STEPS, LENGTH = 150, 12


def sentences(count, generator):
    """Words 5 to 19, padded; the label says whether words below 12 are more than words above."""
    length = torch.randint(6, LENGTH + 1, (count,), generator=generator)
    mask = (torch.arange(LENGTH) < length[:, None]).long()
    ids = torch.randint(5, 20, (count, LENGTH), generator=generator) * mask
    ids[:, 0] = 2
    labels = (((ids >= 5) & (ids < 12)).sum(1) > (ids > 12).sum(1)).long()
    return dict(input_ids=ids, attention_mask=mask), labels


def test_one_bit_bert_learns_to_count(tmp_path):
    sizes = dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128)
    BertConfig(vocab_size=20, max_position_embeddings=16, **sizes).save_pretrained(tmp_path)
    torch.manual_seed(0)
    options = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = TextClassifier(str(tmp_path), pretrained=False, encoder_options=options, **BINARY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    ResilientGradient(model).attach(optimizer)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / (0.1 * STEPS), 1) * (1 - step / STEPS))
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        inputs, labels = sentences(32, generator)
        model(inputs, [BaseDataElement(gt_label=label) for label in labels], mode='loss')['loss'].backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    inputs, labels = sentences(512, torch.Generator().manual_seed(2))
    assert 0.4 < labels.float().mean() < 0.6
    with torch.no_grad():
        accuracy = (model.eval()(inputs).argmax(1) == labels).float().mean()
    assert accuracy > 0.95
