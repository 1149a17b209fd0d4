"""The machinery around the nets: configuration, data, training, jobs, logs, pictures. Imports point down only."""


class InputError(ValueError):
    """A file or an option that the user gave cannot be used; the message is one line and names the remedy."""


class Interrupted(Exception):
    """Work that stopped early although nothing was wrong with it; the message says why and what is safe."""
