"""The machinery around the nets: configuration, data, training, jobs, logs, pictures. Imports point down only."""

__version__ = "1.0.0"


class InputError(ValueError):
    """A file or an option that the user gave cannot be used; the message is one line and names the remedy."""


class ArgumentError(InputError):
    """An argument that cannot be used. The message has arguments in backticks, which a command shows as its flags."""


class Interrupted(Exception):
    """Work that stopped early although nothing was wrong with it; the message says why and what is safe."""
