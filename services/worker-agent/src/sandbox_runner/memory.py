"""How often the kernel has killed for memory in this container, as its own cgroup says (v1 and v2)."""

_PLACES = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


class Kills:
    """What was killed before it was made does not count."""

    def __init__(self, places: tuple[str, ...] = _PLACES) -> None:
        """Begins to count.

        Args:
            places: Files that may count them.
        """
        self._places = places
        self._seen = self._read()

    def any_new(self) -> bool:
        """Whether there were any since the last question."""
        count = self._read()
        new, self._seen = count > self._seen, max(count, self._seen)
        return new

    def _read(self) -> int:
        for place in self._places:
            try:
                with open(place, encoding="ascii") as file:
                    lines = file.read().splitlines()
            except (OSError, ValueError):
                continue
            for line in lines:
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.isdigit():
                    return int(value)
        return 0
