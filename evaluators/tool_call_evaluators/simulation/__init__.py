"""A simulated user: a model that plays the user of a case, turn by turn.

A *scenario* (the `simulate` block of a case) says who the user is and what the user wants. *Instructions* are the
prompt that the model gets. `SimulatedUser` decides what is sent, when the conversation ends and what is a *fault* of
the user; it does no input or output: the driver asks the model and the agent. A *record* is what the store keeps.
"""

from .user import SimulatedUser

__all__ = ["SimulatedUser"]
