"""Conformance check of the tool-call-capture extension: an agent questioned from outside, rules over what was said."""
