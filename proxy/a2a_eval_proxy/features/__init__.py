"""What is more than serving, running and evaluating: each module or folder here is a feature, and can be deleted.

A feature registers itself by its place, and says in `FEATURE` what it adds (`a2a_eval_proxy.feature`): a module in
itself, a folder in its module `feature`. The rest of the package imports nothing from here.
"""
