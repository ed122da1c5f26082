package main

import (
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is an operation for the checker. One that is optional may have no effect.
type step struct {
	Operation
	isOptional bool
}

const windowSize = 16

var register = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{""} },
	Step: func(state, input, _ interface{}) []interface{} {
		taken := input.(step)
		if taken.Kind == "read" {
			if state == taken.Value {
				return []interface{}{state}
			}
			return nil
		}
		if taken.isOptional {
			return []interface{}{state, taken.Value}
		}
		return []interface{}{taken.Value}
	},
}

// check returns the verdict on the history of one key, and the window of a failure.
func check(history []Operation, limit time.Duration) (string, []Operation) {
	operations := operationsOf(history)
	result, info := porcupine.CheckOperationsVerbose(register.ToModel(), operations, limit)
	if result == porcupine.Ok {
		return string(result), nil
	}
	return string(result), windowOf(history, operations, info)
}

// operationsOf returns what the checker must put in order. A write of a value that nobody has read, and whose outcome
// is unknown, would fit at the end: it is left out. The others end with the last read of their value.
func operationsOf(history []Operation) []porcupine.Operation {
	firstRead, lastRead := map[string]int64{}, map[string]int64{}
	for _, one := range history {
		if one.Kind != "read" {
			continue
		}
		if end, isKnown := firstRead[one.Value]; !isKnown || *one.End < end {
			firstRead[one.Value] = *one.End
		}
		lastRead[one.Value] = max(lastRead[one.Value], *one.End)
	}
	operations := []porcupine.Operation{}
	add := func(one Operation, end int64, isOptional bool) {
		operations = append(operations, porcupine.Operation{
			ClientId: one.Client,
			Input:    step{one, isOptional},
			Call:     one.Start,
			// The first read of a value may end in the moment in which its write begins.
			Return: max(end, one.Start),
		})
	}
	for _, one := range history {
		last, isRead := lastRead[one.Value]
		switch {
		case one.Kind == "read":
			add(one, *one.End, false)
		case one.End != nil:
			add(one, *one.End, false)
			if isRead {
				add(one, min(*one.End, last), true)
			}
		case isRead:
			end := int64(math.MaxInt64)
			// Each value but the absent one is written by one operation: it happened before the first read.
			if one.Value != "" {
				end = firstRead[one.Value]
			}
			add(one, end, true)
			add(one, last, true)
		}
	}
	return operations
}

// windowOf returns the operations around the first one that the longest explanation lacks.
func windowOf(
	history []Operation,
	operations []porcupine.Operation,
	info porcupine.LinearizationInfo,
) []Operation {
	longest := []int{}
	for _, partition := range info.PartialLinearizations() {
		for _, found := range partition {
			if len(found) > len(longest) {
				longest = found
			}
		}
	}
	isExplained := make([]bool, len(operations))
	for _, at := range longest {
		isExplained[at] = true
	}
	first := porcupine.Operation{Call: math.MaxInt64, Return: math.MaxInt64}
	for at, one := range operations {
		if !isExplained[at] && !one.Input.(step).isOptional && one.Return < first.Return {
			first = one
		}
	}
	ordered := append([]Operation{}, history...)
	sort.Slice(ordered, func(a, b int) bool { return ordered[a].Start < ordered[b].Start })
	middle := sort.Search(len(ordered), func(at int) bool { return ordered[at].Start >= first.Call })
	from := max(0, middle-windowSize*3/4)
	return ordered[from:min(len(ordered), from+windowSize)]
}
