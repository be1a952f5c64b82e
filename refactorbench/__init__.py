"""Three-stage evaluator of repository migrations: audit, recorded behaviour, adversarial verification."""

__version__ = "0.1.0"
