"""What the lab's loops and faults see of the world."""

from chaos.ports.faults import Dice, Fault, Injected, NoVictim
from chaos.ports.ground import Ground, Need
from chaos.ports.site import Site

__all__ = ["Dice", "Fault", "Ground", "Injected", "Need", "NoVictim", "Site"]
