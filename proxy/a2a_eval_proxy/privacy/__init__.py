"""What of a turn may be shown and stored: redaction, removal of content, files for their owner only.

It owns the rules: each names what to find (a *detector*, a pattern or a JSON path) and what to do with it. It is given
turns, texts and ids as they were captured. It hands on what evaluators, the store and the log may have of them
(`policy`), and knows no store and no port.
"""
