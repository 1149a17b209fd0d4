"""How fast the nets train: the step beside PyTorch, JAX and the bare matrix products, and the main job as a whole."""
