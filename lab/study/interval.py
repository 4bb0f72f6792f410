"""The mean over seeds and how sure it is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rebnn_mm.errors import RebnnError

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: of the values.
        half_width: the interval is mean +- half_width; None for a single value, which has none.
        n: number of values.
    """

    mean: float
    half_width: float | None
    n: int

    def text(self, digits: int = 1) -> str:
        """Write the interval as tables show it, or that there is only one value.

        Example:
            >>> estimate([56.0, 57.0, 58.0]).text(), estimate([56.0]).text()
            ('57.0 ± 2.5 (n = 3)', '56.0 (n = 1)')
        """
        width = '' if self.half_width is None else f' ± {self.half_width:.{digits}f}'
        return f'{self.mean:.{digits}f}{width} (n = {self.n})'

    def verdict(self) -> str:
        """Say on which side of zero the interval of a difference lies, or that this is open.

        Example:
            >>> estimate([1.0, 1.1]).verdict(), estimate([1.0]).verdict()
            ('above', 'open')
        """
        if self.half_width is None or abs(self.mean) <= self.half_width:
            return 'open'
        return 'above' if self.mean > 0 else 'below'


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    r"""Mean and confidence interval of Student's t.

    .. math::
        \bar x \pm t_{n-1, (1 + level) / 2} \frac{s}{\sqrt n}, \qquad s^2 = \frac{1}{n-1} \sum_k (x_k - \bar x)^2

    It is the interval of the mean over seeds, if results are normally distributed over seeds. It says nothing about
    other data or another schedule.

    Args:
        values: one per seed.
        level: probability that the interval holds the mean.

    Raises:
        ValueError: there are no values.

    Example:
        >>> found = estimate([1.0, 2.0, 3.0])
        >>> found.mean, round(found.half_width, 3), found.n
        (2.0, 2.484, 3)
    """
    if not values:
        raise RebnnError('no values to take the mean of.')
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, float(stats.t.ppf((1 + level) / 2, n - 1)) * deviation / math.sqrt(n), n)


def differences(
    scores: Mapping[str, Mapping[int, float]], reference: str, level: float = LEVEL
) -> dict[str, Estimate]:
    r"""Differences of every row to one of them, with intervals from the scatter of all rows together.

    .. math::
        x_{rs} = \mu_r + \beta_s + \varepsilon_{rs}, \qquad \varepsilon_{rs} \sim N(0, \sigma^2)

    Two settings with the same seed see the same images in the same order, hence a part :math:`\beta_s` that a seed
    gives to every row. It is fitted by least squares, so rows may lack seeds; :math:`\sigma` is that of all these rows
    together, which with three seeds a row is known far better than the scatter of one pair. This is the two-way
    analysis of variance without interaction.

    Args:
        scores: by row and seed.
        reference: row that the differences are to.
        level: probability that an interval holds the difference.

    Returns:
        dict[str, Estimate]: by row, the reference left out, and rows that no common seed connects to it. ``n`` is the
        number of the row's seeds; the interval is missing where nothing is left to see scatter in.

    Example:
        >>> scores = dict(ours={0: 57.0, 1: 58.0, 2: 60.0}, theirs={0: 56.0, 1: 57.2, 2: 59.1}, other={1: 50.02})
        >>> found = differences(scores, 'ours')
        >>> found['theirs'].text(), found['theirs'].verdict(), found['other'].text()
        ('-0.9 ± 0.2 (n = 3)', 'below', '-8.0 ± 0.4 (n = 1)')
    """
    if not scores.get(reference):
        return {}
    reached, seeds = {reference}, set(scores[reference])
    while more := {name for name, values in scores.items() if seeds & set(values)} - reached:
        reached |= more
        seeds.update(seed for name in more for seed in scores[name])
    rows = [name for name in scores if name in reached]
    cells = [(name, seed) for name in rows for seed in scores[name]]
    values = np.array([scores[name][seed] for name, seed in cells])
    # A constant can move from all rows to all seeds, so the first seed has none.
    free = sorted(seeds)[1:]
    design = np.array([[row == name for row in rows] + [s == seed for s in free] for name, seed in cells], float)
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ values
    freedom = len(cells) - len(fitted)
    variance = float(np.square(values - design @ fitted).sum()) / freedom if freedom else math.nan
    found = {}
    for name in rows:
        if name == reference:
            continue
        contrast = np.array([(row == name) - (row == reference) for row in rows] + [0] * len(free), float)
        spread = math.sqrt(variance * float(contrast @ inverse @ contrast)) if freedom else None
        half_width = None if spread is None else float(stats.t.ppf((1 + level) / 2, freedom)) * spread
        # The last bits differ between processors, and would turn a tie such as 0.65 to either side.
        found[name] = Estimate(round(float(contrast @ fitted), 9), half_width, len(scores[name]))
    return found
