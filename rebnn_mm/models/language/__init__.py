"""Encoders of Hugging Face's transformers with binary layers."""
