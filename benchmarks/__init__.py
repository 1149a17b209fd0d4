"""Measurements: training steps beside those of other libraries, the estimators beside scikit-learn's."""
