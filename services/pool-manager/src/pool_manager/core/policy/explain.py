"""Says in words why a pool's stock is what it is."""

from __future__ import annotations

from pool_manager.core.policy.price import COLD_SHARE_MAX
from pool_manager.core.policy.self_tuning import BATCH, URGENT, SelfTuning, Target

FEW = 20
"""Fewer activations tell little about a share."""


def explain(policy: SelfTuning, target: Target, position: int) -> tuple[str, ...]:
    """Return sentences, the most important first.

    Args:
        policy: of the pool.
        target: what it made of the last second.
        position: what is held: that of `target`, unless a bound changed it.
    """
    said = [
        f"{position} pods are to be warm or starting, beyond one for each activation that waits"
    ]
    said += [
        sentence
        for klass in (URGENT, BATCH)
        if klass in policy.state.classes and policy.cold_share(klass) < COLD_SHARE_MAX
        for sentence in _of_class(policy, klass)
    ]
    if not policy.state.classes:
        said.append("no activation was seen yet")
    elif policy.cold_share(URGENT) >= COLD_SHARE_MAX:
        said.append(_not_worth_it(policy))
    if target.fault_reserve:
        said.append(
            f"{target.fault_reserve} more are for sessions that lose their pods at once: "
            f"{policy.promise.fault_share:.0%} of those that have one, less the stock"
        )
    if target.stock + target.fault_reserve < target.floor:
        said.append(f"stock_min raises it to {target.floor}")
    if target.ceiling is not None and target.stock + target.fault_reserve > target.ceiling:
        said.append(f"stock_max lowers it to {target.ceiling}: more will wait than was promised")
    if position > target.position:
        said.append(
            f"the declared stock holds it at {position} until demand was watched for a while"
        )
    elif position < target.position:
        said.append(f"pods_max lowers it to {position}: more will wait than was promised")
    if policy.cold_share(BATCH) >= COLD_SHARE_MAX:
        said.append("batch has no warm pods of its own: pods are started for it as it comes")
    return tuple(said)


def _not_worth_it(policy: SelfTuning) -> str:
    rate = policy.state.classes[URGENT].slow_per_s if URGENT in policy.state.classes else 0.0
    return (
        f"the prices allow no stock now: at {rate:.3g} interactive activations a second one warm pod costs more "
        f"({policy.promise.idle_cost_per_hour or 0:g} an hour) than the waits that it would save "
        f"({policy.promise.cold_cost or 0:g} each)"
    )


def _of_class(policy: SelfTuning, klass: str) -> list[str]:
    demand, cover_s = policy.state.classes[klass], policy.cover_s
    expected, now = demand.expected(cover_s), policy.stock_now(demand)
    said = [
        f"{klass}: {demand.slow_per_s:.3g} activations a second, and {cover_s:.1f} s until a pod that is ordered is "
        f"warm: {expected:.1f} come meanwhile",
        f"{klass}: {max(now - expected, 0):.1f} more against chance: {demand.z:.1f} standard deviations of "
        f"{demand.spread(cover_s):.1f} (bursts {max(demand.dispersion, 1.0):.1f} times those of chance)",
    ]
    if demand.is_surging(cover_s):
        said.append(
            f"{klass}: a surge, {demand.fast_per_s:.3g} a second: the last seconds count, not the last hour"
        )
    held = demand.recent[0][1] if demand.recent else now
    if held > now:
        said.append(f"{klass}: {held - now} of what was needed a moment ago are still held")
    promised = policy.cold_share(klass)
    if demand.judged >= FEW:
        said.append(
            f"{klass}: {demand.cold_share:.2%} of about {demand.judged:.0f} activations of the last hour waited, "
            f"{promised:.2%} may"
        )
    else:
        said.append(f"{klass}: {promised:.2%} of activations may wait")
    return said
