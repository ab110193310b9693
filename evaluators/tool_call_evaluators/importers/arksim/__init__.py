"""ArkSim's files, as of arksim 0.3.8: scenarios, the configuration of a run, and the conversations of a simulation.

`scenarios` are cases with a simulated user, `config` is a suite with the places of its files, and `simulation` holds
turns to score. Only `simulation` writes: `report.arksim` has the format of results.
"""
