// Checks with Porcupine that the messages of each key took effect one after the other, each once,
// between the moment when it was sent and the moment when its output came.
//
// Reads lines "KEY NUMBER COUNT SENT RECEIVED" from standard input: the NUMBER-th message of KEY was
// the COUNT-th that its state has seen; times are nanoseconds.
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"

	"github.com/anishathalye/porcupine"
)

type message struct {
	key    string
	number int
}

var counter = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(message).key
			byKey[key] = append(byKey[key], operation)
		}
		parts := [][]porcupine.Operation{}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		seen, count := state.(int), output.(int)
		return input.(message).number == count && count == seen+1, count
	},
}

func main() {
	history, client := []porcupine.Operation{}, 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var sent message
		var count int
		var call, back int64
		if _, err := fmt.Sscan(lines.Text(), &sent.key, &sent.number, &count, &call, &back); err != nil {
			fmt.Fprintf(os.Stderr, "line %d: %v: %q\n", len(history)+1, err, lines.Text())
			os.Exit(2)
		}
		history = append(history, porcupine.Operation{
			ClientId: client, Input: sent, Call: call, Output: count, Return: back,
		})
		client++
	}
	wrong := []string{}
	for _, part := range counter.Partition(history) {
		if !porcupine.CheckOperations(counter, part) {
			wrong = append(wrong, part[0].Input.(message).key)
		}
	}
	slices.Sort(wrong)
	for _, key := range wrong {
		fmt.Printf("key %s: no order of its messages explains the outputs\n", key)
	}
	fmt.Printf("%d operations, %d keys wrong\n", len(history), len(wrong))
	if len(wrong) > 0 {
		os.Exit(1)
	}
}
