"""A client in a process of its own, that may die of a placed fault: tells one story to its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from agent_sandbox import ClientOptions
from faults_parts.stories import STORIES
from faults_parts.teller import Cast, Teller
from faults_parts.waiting import connected


async def tell(story: str, cast: Cast, credential: str, servers: tuple[str, ...]) -> None:
    """Tell it to its end."""
    options = ClientOptions(servers=servers, credential=Path(credential), tenant=cast.tenant)
    async with connected(options) as client:
        await STORIES[story](Teller(client, cast, lambda: None))


def main() -> None:
    """Tell the story that is ordered, and leave what is expected of it."""
    story, cast, credential, servers, told = msgspec.json.decode(
        sys.argv[1], type=tuple[str, Cast, str, tuple[str, ...], str]
    )
    asyncio.run(tell(story, cast, credential, servers))
    Path(told).write_bytes(msgspec.json.encode(cast))


if __name__ == "__main__":
    main()
