"""The mean over seeds and how sure it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

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
        """As tables show it: the interval, or that there is but one value.

        Example:
            >>> estimate([56.0, 57.0, 58.0]).text(), estimate([56.0]).text()
            ('57.0 ± 2.5 (n = 3)', '56.0 (n = 1)')
        """
        width = '' if self.half_width is None else f' ± {self.half_width:.{digits}f}'
        return f'{self.mean:.{digits}f}{width} (n = {self.n})'

    def verdict(self) -> str:
        """Of a difference: on which side of zero its interval lies, or that this is open.

        Example:
            >>> paired_difference({0: 57.0, 1: 58.0}, {0: 56.0, 1: 56.9}).verdict(), estimate([1.0]).verdict()
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
        raise ValueError('no values to take the mean of.')
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, float(stats.t.ppf((1 + level) / 2, n - 1)) * deviation / math.sqrt(n), n)


def paired_difference(values: dict[int, float], others: dict[int, float], level: float = LEVEL) -> Estimate | None:
    """Mean of ``values - others`` over the seeds that both have, with its interval; None without such a seed.

    Two settings with the same seed see the same images in the same order, so their difference varies less than each.

    Example:
        >>> paired_difference({0: 57.0, 1: 58.0}, {0: 56.0, 1: 57.0, 2: 60.0})
        Estimate(mean=1.0, half_width=0.0, n=2)
    """
    shared = sorted(values.keys() & others.keys())
    return estimate([values[seed] - others[seed] for seed in shared], level) if shared else None
