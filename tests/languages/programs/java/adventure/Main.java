import java.util.ArrayDeque;
import java.util.Deque;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;

/** A text adventure with a sealed family of commands and an undo; the status is the number of moves. */
public class Main {
    enum Direction { NORTH, SOUTH, EAST, WEST }

    sealed interface Command permits Go, Take, Undo {}
    record Go(Direction where) implements Command {}
    record Take(String thing) implements Command {}
    record Undo() implements Command {}

    static class Room {
        final String text;
        final Map<Direction, Room> doors = new EnumMap<>(Direction.class);
        final Set<String> things = new HashSet<>();
        Room(String text, String... things) { this.text = text; this.things.addAll(Set.of(things)); }
        void join(Direction where, Room other, Direction back) { doors.put(where, other); other.doors.put(back, this); }
    }

    static Command parse(String line) {
        String[] words = line.trim().toLowerCase().split("\\s+", 2);
        return switch (words[0]) {
            case "go" -> new Go(Direction.valueOf(words[1].toUpperCase()));
            case "take" -> new Take(words[1]);
            case "undo" -> new Undo();
            default -> throw new IllegalArgumentException("cannot " + words[0]);
        };
    }

    public static void main(String[] args) {
        Room garden = new Room("a garden", "key"), gate = new Room("a gate"), tower = new Room("a tower", "crown");
        garden.join(Direction.NORTH, gate, Direction.SOUTH);
        gate.join(Direction.EAST, tower, Direction.WEST);
        Deque<Room> way = new ArrayDeque<>();
        way.push(garden);
        Set<String> bag = new HashSet<>();
        int moves = 0;
        var in = new Scanner(System.in);
        while (in.hasNextLine() && !bag.contains("crown")) {
            try {
                Command command = parse(in.nextLine());
                moves++;
                if (command instanceof Go go) {
                    Room next = way.peek().doors.get(go.where());
                    if (next == null) System.out.println("no door " + go.where().name().toLowerCase());
                    else if (next == tower && !bag.contains("key")) System.out.println("the tower is locked");
                    else { way.push(next); System.out.println("you see " + next.text); }
                } else if (command instanceof Take take) {
                    System.out.println(way.peek().things.remove(take.thing()) && bag.add(take.thing())
                            ? "taken: " + take.thing() : "no " + take.thing());
                } else if (way.size() > 1) {
                    way.pop();
                    System.out.println("back in " + way.peek().text);
                }
            } catch (IllegalArgumentException problem) {
                System.out.println(problem.getMessage().replaceAll(".*\\.", "unknown: "));
            }
        }
        System.out.println(bag.contains("crown") ? "you are king" : "night falls");
        System.exit(moves);
    }
}
