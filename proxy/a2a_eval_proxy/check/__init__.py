"""Conformance check of the tool-call-capture extension: probes an agent and applies rules to its answers.

Three rooms, in one direction: `probe` talks to the agent and records, `rules` decides, `report` shows.
"""
