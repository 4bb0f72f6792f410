"""Encoders of Hugging Face's transformers with binary layers; loaded when a config first names one with its scope."""

from .attention import install_attention, record_attention
from .convert import binarize
from .encoder_output import AttentionRecord, EncoderOutput
from .text_classifier import TextClassifier

__all__ = [
    'AttentionRecord',
    'EncoderOutput',
    'TextClassifier',
    'binarize',
    'install_attention',
    'record_attention',
]
