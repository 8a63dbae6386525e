import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** A pool, futures that follow one another, a concurrent map, a latch and a parallel stream. */
public class Main {
    static long primes(int low, int high) {
        return IntStream.range(Math.max(2, low), high)
                .filter(n -> IntStream.rangeClosed(2, (int) Math.sqrt(n)).allMatch(d -> n % d != 0)).count();
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int low = i * 10000;
            parts.add(pool.submit(() -> primes(low, low + 10000)));
        }
        long sum = 0;
        for (Future<Long> part : parts) sum += part.get();
        System.out.println("primes: " + sum);

        var counts = new ConcurrentHashMap<Integer, AtomicLong>();
        var latch = new CountDownLatch(4);
        for (int t = 0; t < 4; t++) {
            pool.execute(() -> {
                for (int n = 0; n < 50000; n++) counts.computeIfAbsent(n % 7, k -> new AtomicLong()).incrementAndGet();
                latch.countDown();
            });
        }
        latch.await();
        System.out.println("counts: " + counts.values().stream().mapToLong(AtomicLong::get).sum() + " " + counts.get(3));

        String text = CompletableFuture.supplyAsync(() -> 20, pool)
                .thenCombine(CompletableFuture.supplyAsync(() -> 22, pool), Integer::sum)
                .thenApply(n -> "future " + n)
                .thenCompose(s -> CompletableFuture.supplyAsync(() -> s + "!", pool)).get();
        System.out.println(text);
        pool.shutdown();
        System.out.println(LongStream.rangeClosed(1, 1_000_000).parallel().map(n -> n % 3 == 0 ? n : 0).sum());
    }
}
