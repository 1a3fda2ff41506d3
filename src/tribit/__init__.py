"""Binary matrix completion that uses likes, dislikes and the unobserved entries."""

__version__ = "0.1.0"
