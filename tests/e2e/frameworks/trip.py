"""The tools of the framework agents, and the script their fake models follow."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

ANSWER = "Your trip is planned, all but the hotel."


@dataclass(frozen=True)
class Call:
    """A tool call as a model asks for it."""

    id: str
    name: str
    arguments: dict[str, Any]


async def get_weather(city: str, units: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(0)
    return f"Sunny, 21 {units} in {city}"


async def search_flights(query: dict[str, Any], max_results: int) -> dict[str, Any]:
    """Flights from one city to another."""
    await asyncio.sleep(0)
    return {"flights": [{"to": query["to"], "price": 512.5}], "count": max_results}


def book_hotel(hotel_id: str, nights: int) -> str:
    """Books a room; there is never one."""
    raise ValueError(f"hotel {hotel_id} not found")


TOOLS = (get_weather, search_flights, book_hotel)


def calls_asked_for(request: str, answered: int) -> list[Call]:
    """What the model asks for in its next answer; [] when it gives `ANSWER`.

    `request` is the user's text, its last word the city; `answered` how often the model has answered since. Two
    calls at once, one that fails, two at once that are the same, and the same once more.
    """
    city = request.split()[-1]
    weather = {"city": city, "units": "metric"}
    flights = {"query": {"to": city, "passengers": {"adults": 2, "children": 0}, "flexible": True}, "max_results": 3}
    steps = [
        [Call(f"{city}-1", "get_weather", weather), Call(f"{city}-2", "search_flights", flights)],
        [Call(f"{city}-3", "book_hotel", {"hotel_id": "H-404", "nights": 2})],
        [Call(f"{city}-4", "get_weather", weather), Call(f"{city}-5", "get_weather", weather)],
        [Call(f"{city}-6", "get_weather", weather)],
    ]
    return steps[answered] if answered < len(steps) else []
