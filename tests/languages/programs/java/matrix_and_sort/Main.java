import java.util.Arrays;
import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.Random;

/** A matrix product, a million numbers sorted three ways, objects by several keys. */
public class Main {
    record Point(int x, int y) {}

    public static void main(String[] args) {
        int n = 250;
        double[][] a = new double[n][n], b = new double[n][n], c = new double[n][n];
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { a[i][j] = i - j; b[i][j] = (i + j) % 5; }
        for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) c[i][j] += a[i][k] * b[k][j];
        System.out.printf("%.1f %.1f%n", c[0][0], Arrays.stream(c).flatMapToDouble(Arrays::stream).sum());

        var random = new Random(42);
        int[] numbers = random.ints(1_000_000).toArray(), parallel = numbers.clone();
        Integer[] boxed = Arrays.stream(numbers).limit(200_000).boxed().toArray(Integer[]::new);
        Arrays.sort(numbers);
        Arrays.parallelSort(parallel);
        Arrays.sort(boxed, Comparator.reverseOrder());
        System.out.println(Arrays.equals(numbers, parallel) + " " + numbers[500_000] + " " + (boxed[0] >= boxed[1]));

        var heap = new PriorityQueue<Point>(Comparator.comparingInt((Point p) -> p.x() + p.y()).thenComparing(Point::y, Comparator.reverseOrder()));
        for (int i = 0; i < 5; i++) for (int j = 0; j < 5; j++) heap.add(new Point((i * 3) % 5, (j * 2) % 5));
        var text = new StringBuilder();
        for (int i = 0; i < 6; i++) text.append(heap.poll()).append(' ');
        System.out.println(text.toString().trim());
    }
}
