"""The HTTP port for operators: turns, runs, cases, live events, health and metrics; for workers, health and metrics.

`api` is the proxy's, `worker_api` is that of a worker.

Imported by the application and the command line. Imports runs, scoring, store, net and telemetry.
"""
