//go:build gmpreader

// Command reader decodes and orders a Go execution trace with Go's own reader and does nothing else:
// the peer of the row that measures how fast events are read, and the way to count a trace's events.
//
// It imports a package that only Go's own tree may import, so the harness builds it in place of a
// command of that tree (`go build -overlay`).
package main

import (
	"fmt"
	"internal/trace"
	"io"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("expected the path of a trace as the only argument"))
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		fail(err)
	}
	start := time.Now()
	r, err := trace.NewReader(f)
	if err != nil {
		fail(err)
	}
	var events, transitions int64
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			break
		}
		if err != nil {
			fail(err)
		}
		events++
		if ev.Kind() == trace.EventStateTransition {
			transitions++
		}
	}
	elapsed := time.Since(start)
	fmt.Printf("result operations=%d checksum=%d elapsed_ns=%d\n", events, transitions, elapsed.Nanoseconds())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "reader:", err)
	os.Exit(2)
}
