"""Named tolerances."""

FLOAT64_EXACT = 1e-12
"""Two float64 computations of the same formula in a different order."""

FLOAT32_ROUNDING = 2e-6
"""One float32 computation against float64, or two in a different order; relative to values of about one."""
