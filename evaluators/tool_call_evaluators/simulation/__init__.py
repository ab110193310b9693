"""A simulated user: a model that plays the user of a case, turn by turn.

A *scenario* (the `simulate` block of a case) says who the user is and what the user wants. *Instructions* are the
prompt that the model gets. `SimulatedUser` decides what is sent, when the conversation ends and what is a *fault* of
the user; it does no input or output: the driver asks the model and the agent. A *record* is what the store keeps.
"""

from .faults import USER_FAULTS, USER_NO_END, USER_UNANSWERED
from .instructions import instructions_for
from .record import SIMULATED_USER, UserRecord
from .scenario import Simulation
from .settings import SimulatedUserSettings
from .user import SimulatedUser

__all__ = [
    "SIMULATED_USER",
    "USER_FAULTS",
    "USER_NO_END",
    "USER_UNANSWERED",
    "SimulatedUser",
    "SimulatedUserSettings",
    "Simulation",
    "UserRecord",
    "instructions_for",
]
