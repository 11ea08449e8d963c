// A static binary that never saw the C library: own stacks, own scheduler, asynchronous preemption by signal.
package main

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

func spin(most int) int {
	steps := 0
	for i := 1; i < most; i++ {
		for n := i; n != 1; steps++ {
			if n%2 == 0 {
				n /= 2
			} else {
				n = 3*n + 1
			}
		}
	}
	return steps
}

func deep(n int) int {
	var pad [64]int
	pad[n%64] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + pad[n%64]
}

func main() {
	results := make(chan int)
	var group sync.WaitGroup
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func(own int) {
			defer group.Done()
			results <- spin(2000 + own)
		}(i)
	}
	go func() { group.Wait(); close(results) }()
	sum := 0
	for r := range results {
		sum += r
	}
	words := map[string]int{}
	for i := 0; i < 50000; i++ {
		words[strings.Repeat("x", i%50)] += i
	}
	keys := []string{}
	for key := range words {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	defer func() { fmt.Println("recovered", recover() != nil) }()
	fmt.Println(sum, len(keys), words["xxx"], deep(10000))
	var nothing *int
	fmt.Println(*nothing)
}
