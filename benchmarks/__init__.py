"""Measurements: training steps beside those of other libraries, the estimators beside scikit-learn's."""

from highway_lab.start import refuse_parts

refuse_parts()
