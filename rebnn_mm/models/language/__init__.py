"""Encoders of Hugging Face's transformers with binary layers; loaded when a config first names one."""

from ..losses.encoder_losses import AttentionRecord, EncoderOutput
from .attention import install_attention, record_attention
from .convert import binarize
from .pretrained import load_pretrained, save_pretrained
from .teacher_student_text_classifier import TeacherStudentTextClassifier
from .text_classifier import TextClassifier
