"""Checks and helpers that the tools share; nothing is imported here, so that each works where the others cannot."""
