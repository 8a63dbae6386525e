import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** One flat JSON object a line on stdin; grouped, sorted and averaged with streams, written as JSON. */
public class Main {
    record Sale(String city, String item, double price, int count) {
        double total() { return price * count; }
    }

    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\"\\s*:\\s*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|(-?[\\d.]+))");

    static Sale parse(String line) {
        var fields = new TreeMap<String, String>();
        Matcher matcher = FIELD.matcher(line);
        while (matcher.find()) fields.put(matcher.group(1), matcher.group(2) != null ? matcher.group(2) : matcher.group(3));
        return new Sale(fields.get("city"), fields.get("item"), Double.parseDouble(fields.get("price")),
                Integer.parseInt(fields.getOrDefault("count", "1")));
    }

    public static void main(String[] args) throws Exception {
        List<Sale> sales = new ArrayList<>();
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null;) if (!line.isBlank()) sales.add(parse(line));
        var byCity = sales.stream().collect(Collectors.groupingBy(Sale::city, TreeMap::new, Collectors.summingDouble(Sale::total)));
        System.out.println(byCity.entrySet().stream()
                .map(e -> String.format("\"%s\": %.2f", e.getKey(), e.getValue()))
                .collect(Collectors.joining(", ", "{", "}")));
        Sale best = sales.stream().max(Comparator.comparingDouble(Sale::total)).orElseThrow();
        System.out.println(best);
        System.out.printf("%.3f on average, %d items%n", sales.stream().mapToDouble(Sale::price).average().orElse(0),
                sales.stream().map(Sale::item).distinct().count());
    }
}
