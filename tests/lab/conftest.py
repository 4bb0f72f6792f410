"""Fixtures shared with the tests of the tools."""

from tests.tools.conftest import classifier_config, run_tool, stop_tool  # noqa: F401
