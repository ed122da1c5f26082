// Reads a history as JSON lines and reports whether it is linearizable: whether each operation can have happened at one
// moment between its start and its end, so that every read returns the last write before it.
//
// Each key is a register that is absent at first. A write whose outcome is unknown may happen at any moment after its
// start, or never. Every write may happen twice: HTTP lets proxies repeat PUT and DELETE, and nginx does so.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"
)

// Operation is a line of the history. Times are in nanoseconds of one clock.
type Operation struct {
	Key    string `json:"key"`
	Client int    `json:"client"`
	// Kind is "write" or "read".
	Kind string `json:"kind"`
	// Value is "" for an absent value: a write of it deletes.
	Value string `json:"value"`
	Start int64  `json:"start"`
	// End is nil for a write whose outcome is unknown.
	End *int64 `json:"end"`
}

// Report is the output of the program.
type Report struct {
	// Verdict is "Ok", "Illegal", or "Unknown" after the time limit.
	Verdict    string    `json:"verdict"`
	Keys       int       `json:"keys"`
	Operations int       `json:"operations"`
	Failures   []Failure `json:"failures"`
}

// Failure is a key whose history is illegal, or took too long.
type Failure struct {
	Key     string `json:"key"`
	Verdict string `json:"verdict"`
	// Window has the operations around the first one that cannot be explained.
	Window []Operation `json:"window"`
}

func main() {
	limit := flag.Duration("limit", time.Minute, "time limit for each key")
	flag.Parse()
	histories, count, err := read()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	report := Report{Verdict: "Ok", Keys: len(histories), Operations: count, Failures: []Failure{}}
	for _, key := range sorted(histories) {
		verdict, window := check(histories[key], *limit)
		if verdict == "Ok" {
			continue
		}
		report.Failures = append(report.Failures, Failure{key, verdict, window})
		if report.Verdict != "Illegal" {
			report.Verdict = verdict
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// read returns the operations of each key, and their number in all.
func read() (map[string][]Operation, int, error) {
	histories := map[string][]Operation{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	count := 0
	for ; lines.Scan(); count++ {
		var operation Operation
		if err := json.Unmarshal(lines.Bytes(), &operation); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", count+1, err)
		}
		isRead := operation.Kind == "read"
		if !isRead && operation.Kind != "write" {
			return nil, 0, fmt.Errorf("line %d: unknown kind %q", count+1, operation.Kind)
		}
		if isRead && operation.End == nil {
			return nil, 0, fmt.Errorf("line %d: a read without an end", count+1)
		}
		histories[operation.Key] = append(histories[operation.Key], operation)
	}
	return histories, count, lines.Err()
}

func sorted(histories map[string][]Operation) []string {
	keys := make([]string, 0, len(histories))
	for key := range histories {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
