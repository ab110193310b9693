"""The HTTP port for operators: turns, runs, cases, live events, health and metrics; for workers, health and metrics.

`api` is the application of a proxy's port. The `*_api` modules have its routes, each for one subject; `control` is the
running proxy as they see it.
"""
