"""The laboratory around the nets, which it imports: data sets, files, logs, checkpoints, jobs, commands, pictures."""

__version__ = "1.0.0"


class Interrupted(Exception):
    """Work that stopped early although nothing was wrong with it; the message says why and what is safe."""
