"""Keeps pools of warm workers filled and takes sessions away from workers that are gone."""
