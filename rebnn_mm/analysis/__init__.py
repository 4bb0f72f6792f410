"""Looks at models and runs from outside: what they cost, what they do. The export counts with it."""
