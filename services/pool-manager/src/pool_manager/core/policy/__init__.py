"""How many pods a pool keeps warm: pure decisions from demand, start-ups, prices and promises."""

from pool_manager.core.policy.demand import Demand
from pool_manager.core.policy.self_tuning import Seen, SelfTuning, State, Target

__all__ = ["Demand", "Seen", "SelfTuning", "State", "Target"]
