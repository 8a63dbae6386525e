"""A text adventure: commands on stdin, one a line; ends with the treasure or with the input."""
import sys

ROOMS = {
    "hall": {"text": "A cold hall.", "north": "library", "east": "cellar"},
    "library": {"text": "Dust and books.", "south": "hall", "item": "lamp"},
    "cellar": {"text": "It is dark.", "west": "hall", "dark": True, "item": "treasure"},
}


def play(lines):
    place, bag = "hall", set()
    yield ROOMS[place]["text"]
    for turn, line in enumerate(lines, 1):
        verb, _, thing = line.strip().lower().partition(" ")
        room = ROOMS[place]
        if verb == "go" and thing in ("north", "east", "south", "west"):
            if thing not in room:
                yield "You walk into a wall."
                continue
            place = room[thing]
            dark = ROOMS[place].get("dark") and "lamp" not in bag
            yield "You see nothing." if dark else ROOMS[place]["text"]
        elif verb == "take":
            if room.get("item") != thing or thing in bag:
                yield f"There is no {thing} here."
            elif room.get("dark") and "lamp" not in bag:
                yield "You fumble in the dark."
            else:
                bag.add(thing)
                yield f"You take the {thing}."
                if thing == "treasure":
                    yield f"You won in {turn} turns."
                    return
        else:
            yield f"I do not know how to {verb}."
    yield "You fall asleep."


for message in play(sys.stdin):
    print(message)
