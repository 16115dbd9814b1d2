"""What runs side by side in a run: users, whoever sends one-shots, the schedule, the gauges."""
