"""Runs: started against an agent, scored again, read from the store, reported, compared, recorded, exported.

A *run* is a named set of turns in the store. `drive` runs a suite against an agent, `rescore` scores stored turns
again; both end with a *run result*: verdict and report. Terminal *tables* and *report files* show it. A *run plan* is
the suite with the files that are read and written; *simulation files* hold conversations in ArkSim's format.
"""
