"""Keeps the volume that a pool's pods share: whose folder is where, and what becomes of it at the end."""
