"""Measurements: training steps beside those of other libraries, the main job as a whole, the estimators."""
