"""Questions that the paper leaves open, measured as its own are."""
