"""What the lab's loops and faults see of the world."""

from chaos.ports.faults import Dice, Fault, Injected, NoVictim
from chaos.ports.site import Site

__all__ = ["Dice", "Fault", "Injected", "NoVictim", "Site"]
