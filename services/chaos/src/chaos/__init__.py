"""The chaos lab: load, faults, a history of what happened, checkers, and a report (`agent-sandbox chaos`)."""
