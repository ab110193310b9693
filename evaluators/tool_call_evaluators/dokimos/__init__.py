"""Dokimos: its data sets (`dataset`; those that are no JSON: `tables`) and the maps of its test cases (`test_case`)."""
