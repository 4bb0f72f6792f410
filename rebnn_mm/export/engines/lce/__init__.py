"""Writing a packed classifier as a TensorFlow Lite file for larq compute engine."""
