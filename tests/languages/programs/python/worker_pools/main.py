"""Counts primes with a pool of processes, and checks the sum with threads and a queue."""
import queue
import threading
from concurrent.futures import ProcessPoolExecutor


def primes_between(bounds):
    low, high = bounds
    return sum(1 for n in range(max(low, 2), high) if all(n % d for d in range(2, int(n ** 0.5) + 1)))


def main():
    pieces = [(start, start + 5000) for start in range(0, 40000, 5000)]
    with ProcessPoolExecutor(max_workers=4) as pool:
        counts = list(pool.map(primes_between, pieces))
    print("primes below 40000:", sum(counts), counts)

    work, done, lock = queue.Queue(), [], threading.Lock()

    def worker():
        while (n := work.get()) is not None:
            with lock:
                done.append(n * n)

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for n in range(1000):
        work.put(n)
    for _ in threads:
        work.put(None)
    for thread in threads:
        thread.join()
    print("squares:", len(done), sum(done))


if __name__ == "__main__":
    main()
