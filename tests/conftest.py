"""Imported before any test, as `custom_imports` is read before anything is built."""

import rebnn_mm  # noqa: F401
