"""Fixtures that the tools have, too."""

from tests.tools.conftest import classifier_config  # noqa: F401
