"""Looks at models and runs from outside: what they cost, what they do. Nothing else in the package imports it."""
