package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: statedoc FILE")
		os.Exit(2)
	}
	page, err := render()
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "statedoc:", err)
		os.Exit(1)
	}
}
