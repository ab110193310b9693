"""The data port: where clients connect.

It relays requests and captures turns, which it reports to be stored and scored. Of several proxies on one store, one
owns each task and folds what all of them observe of it (`replicas`).
"""
