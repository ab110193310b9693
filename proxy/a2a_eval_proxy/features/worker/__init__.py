"""Scores turns that proxies without evaluation leave pending in a shared store.

A *job* is some turns to score. `command` takes jobs, tries them again and takes over those of workers that died; the
*job scorer* finds the case of each turn, the same for every worker, and scores it.
"""
