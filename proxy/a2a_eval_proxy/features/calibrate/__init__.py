"""How well judges agree with people, and what their scores are worth."""
