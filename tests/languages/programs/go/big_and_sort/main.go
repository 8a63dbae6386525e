// Big integers, a million numbers sorted, and generics.
package main

import (
	"fmt"
	"math/big"
	"os"
	"sort"
	"strconv"
)

type ordered interface{ ~int | ~uint32 | ~string }

func quicksort[T ordered](items []T) {
	for len(items) > 12 {
		pivot := items[len(items)/2]
		i, j := 0, len(items)-1
		for i <= j {
			for items[i] < pivot {
				i++
			}
			for items[j] > pivot {
				j--
			}
			if i <= j {
				items[i], items[j] = items[j], items[i]
				i++
				j--
			}
		}
		quicksort(items[:j+1])
		items = items[i:]
	}
	for i := 1; i < len(items); i++ {
		for j := i; j > 0 && items[j] < items[j-1]; j-- {
			items[j], items[j-1] = items[j-1], items[j]
		}
	}
}

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	factorial := new(big.Int).MulRange(1, int64(n))
	fmt.Println(factorial)
	fmt.Println(factorial.BitLen(), new(big.Int).Sub(factorial, big.NewInt(1)).ProbablyPrime(10))
	fmt.Println(new(big.Rat).Add(big.NewRat(1, 3), big.NewRat(5, 6)))

	items := make([]uint32, 1_000_000)
	state := uint32(12345)
	for i := range items {
		state = state*1664525 + 1013904223
		items[i] = state
	}
	other := append([]uint32(nil), items...)
	quicksort(items)
	sort.Slice(other, func(i, j int) bool { return other[i] < other[j] })
	same := true
	for i := range items {
		same = same && items[i] == other[i]
	}
	fmt.Println(same, items[0], items[500_000], items[999_999])
	words := []string{"pear", "fig", "äpple", "kiwi", "fig"}
	quicksort(words)
	fmt.Println(words)
}
