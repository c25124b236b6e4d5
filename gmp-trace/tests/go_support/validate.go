// Prints how many events a trace has, each of which went through the validator of Go's own tests.
package main

import (
	"bufio"
	"fmt"
	"internal/trace"
	"internal/trace/testtrace"
	"internal/trace/version"
	"io"
	"os"
)

func main() {
	events, err := validate(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "event %d: %v\n", events, err)
		os.Exit(1)
	}
	fmt.Println(events)
}

func validate(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	head, err := in.Peek(len("go 1.23"))
	if err != nil {
		return 0, err
	}
	validator := testtrace.NewValidator()
	if string(head) == "go 1.23" {
		validator.GoVersion = version.Go123
	}
	reader, err := trace.NewReader(in)
	if err != nil {
		return 0, err
	}
	for events := 0; ; events++ {
		event, err := reader.ReadEvent()
		if err == io.EOF {
			return events, nil
		}
		if err == nil {
			err = validator.Event(event)
		}
		if err != nil {
			return events, err
		}
	}
}
