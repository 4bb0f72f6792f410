"""Packed networks against the same networks with real weights: files of both, sessions, times and where they go."""
