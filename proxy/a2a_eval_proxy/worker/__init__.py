"""Scores turns that proxies without evaluation leave pending in a shared store.

A *job* is one conversation to score. The *job engine* (procrastinate) fetches jobs, retries them and takes over those
of workers that died; the *job scorer* finds the case of each turn, the same for every worker, and scores it.
"""
