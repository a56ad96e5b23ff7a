package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("give one of: show, check, count, serial, large")
	}
	untested := exemptions{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	recordFile := flags.String("record", "", "file with the events of go test -json")
	countFile := flags.String("count-file", "", "file with the recorded number of tests")
	flags.Var(untested, "untested", "package that needs no tests, and why; may be repeated")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "show":
		return runShow(*recordFile, in, out)
	case "check":
		return runCheck(*recordFile, *countFile, untested, out)
	case "count":
		r, err := load(*recordFile)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, r.Tests())
		return err
	case "serial":
		for _, folder := range serial() {
			if _, err := fmt.Fprintln(out, "./"+folder); err != nil {
				return err
			}
		}
		return nil
	case "large":
		found, err := large()
		if len(found) > 0 {
			err = errors.New(strings.Join(found, "\n"))
		}
		return err
	default:
		return fmt.Errorf("unknown command %q: give one of show, check, count, serial, large", args[0])
	}
}

func runShow(recordFile string, in io.Reader, out io.Writer) (err error) {
	keep, err := os.Create(recordFile)
	if err != nil {
		return fmt.Errorf("keep the test events: %w", err)
	}
	defer func() { err = errors.Join(err, keep.Close()) }()
	r, err := show(in, keep, out)
	if err != nil {
		return err
	}
	if !r.OK() {
		return errors.New("tests failed")
	}
	return nil
}

func runCheck(recordFile, countFile string, untested exemptions, out io.Writer) error {
	r, err := load(recordFile)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(countFile)
	if err != nil {
		return fmt.Errorf("read the recorded number of tests: %w", err)
	}
	recorded, err := parseCount(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", countFile, err)
	}
	broken := check(r, recorded, untested)
	for _, sentence := range broken {
		if _, err := fmt.Fprintln(out, sentence); err != nil {
			return err
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d rules are broken", len(broken))
	}
	if r.Tests() > recorded {
		_, err = fmt.Fprintf(out, "%d tests ran, %d are recorded: run make test-count and commit .ci/test-count\n", r.Tests(), recorded)
	}
	return err
}

func load(recordFile string) (*record, error) {
	file, err := os.Open(recordFile)
	if err != nil {
		return nil, fmt.Errorf("read the test events: %w (make test writes them)", err)
	}
	defer file.Close()
	r := newRecord()
	return r, readEvents(file, r.add, func(string) {})
}
