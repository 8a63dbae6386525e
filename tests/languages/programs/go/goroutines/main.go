// A pipeline of goroutines over channels, a worker pool, a mutex, a context that ends them.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

func numbers(ctx context.Context) <-chan int {
	out := make(chan int)
	go func() {
		defer close(out)
		for n := 2; ; n++ {
			select {
			case out <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func without(ctx context.Context, in <-chan int, prime int) <-chan int {
	out := make(chan int)
	go func() {
		defer close(out)
		for n := range in {
			if n%prime == 0 {
				continue
			}
			select {
			case out <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	var primes []int
	for in := numbers(ctx); len(primes) < 30; {
		prime := <-in
		primes = append(primes, prime)
		in = without(ctx, in, prime)
	}
	cancel()
	fmt.Println(primes)

	jobs, results := make(chan int), make(chan [2]int)
	var workers sync.WaitGroup
	var busy atomic.Int64
	for w := 0; w < 6; w++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for n := range jobs {
				busy.Add(1)
				steps, x := 0, n
				for x != 1 {
					if x%2 == 0 {
						x /= 2
					} else {
						x = 3*x + 1
					}
					steps++
				}
				results <- [2]int{steps, n}
			}
		}()
	}
	go func() {
		for n := 1; n <= 20000; n++ {
			jobs <- n
		}
		close(jobs)
		workers.Wait()
		close(results)
	}()
	best := [2]int{}
	for result := range results {
		if result[0] > best[0] || result[0] == best[0] && result[1] < best[1] {
			best = result
		}
	}
	fmt.Printf("%d takes %d steps, %d jobs\n", best[1], best[0], busy.Load())

	var mutex sync.Mutex
	var all sync.WaitGroup
	counts := map[int]int{}
	for g := 0; g < 100; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			mutex.Lock()
			defer mutex.Unlock()
			counts[g%3]++
		}(g)
	}
	all.Wait()
	fmt.Println(counts)
}
