"""Replays arrivals through the policies of pools, the production one among them: `python -m pool_manager.backtest`."""
