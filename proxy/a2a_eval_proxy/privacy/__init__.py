"""What of a turn may be shown and stored: redaction, removal of content, files for their owner only.

A *rule* names what to find (a *detector*, a pattern or a JSON path) and what to do with it. The *redactor* applies
rules; the *policy* decides what evaluators see and what the store keeps.
"""
