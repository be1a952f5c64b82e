from .programs import product, sandbox, spec, worker

__all__ = ["product", "sandbox", "spec", "worker"]
