"""Scores that OpenMMLab's libraries do not have."""

from .glue_metric import GLUEMetric
