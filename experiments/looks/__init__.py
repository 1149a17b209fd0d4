"""Looks into trained nets: what their gates do, and what depends on them."""
