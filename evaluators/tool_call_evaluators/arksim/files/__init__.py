"""ArkSim's files: its configuration (`config`), scenarios and simulations are read, simulations and results written."""
