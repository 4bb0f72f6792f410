"""Small text classifiers with biases of their own."""

import torch

from rebnn_mm.models.language import TextClassifier
from tests.models.language.tiny import BINARY, tiny_encoder


def classifier(folder, kind: str = 'bert', num_labels: int = 3, layers: int = 1, **options) -> TextClassifier:
    torch.manual_seed(0)
    tiny_encoder(folder, kind, **{'n_layers' if kind == 'distilbert' else 'num_hidden_layers': layers})
    model = TextClassifier(str(folder), num_labels=num_labels, **{**BINARY, **options}).eval()
    for name, value in model.named_parameters():
        if name.endswith('bias'):
            value.data.normal_(0, 0.5)
    return model
