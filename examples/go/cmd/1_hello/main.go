// 1_hello: the library, its features, its options and its errors. No model is needed.
//
//	1_hello [KEY]        describes every option, or the one with this key
//
// New here: rl.Version, rl.BuildInfo, rl.Features, rl.OptionInfos, Options.Set, rl.Error.
package main

import (
	"errors"
	"fmt"
	"os"

	"librl/rl"
)

// ---- errors ----

func check(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// ---- pieces ----

func showLibrary() {
	fmt.Printf("librl %s, interface %d.%d\n", rl.Version(), rl.ABIVersion()>>16,
		rl.ABIVersion()&0xffff)
	fmt.Print(must(rl.BuildInfo()))
	for _, feature := range must(rl.Features()) {
		answer := feature.Reason
		if feature.Available {
			answer = "yes"
		}
		fmt.Printf("feature %-12s %s\n", feature.Name, answer)
	}
}

func showOption(info rl.OptionInfo) {
	fmt.Printf("%s = %s %s\n  %s\n", info.Key, info.Default, info.Unit, info.Doc)
	for _, choice := range info.Choices {
		fmt.Printf("  %s: %s\n", choice.Name, choice.Doc)
	}
}

func showOptions(key string) int {
	if key != "" {
		showOption(must(rl.FindOption(key)))
		return 1
	}
	infos := must(rl.OptionInfos())
	for _, info := range infos {
		showOption(info)
	}
	return len(infos)
}

// A misspelt key is an error that knows the right one. True when it does.
func showError(options *rl.Options) bool {
	err := options.Set("engine.blok_size", "64")
	var failure *rl.Error
	good := errors.Is(err, rl.ErrUnknownOption) && errors.As(err, &failure) &&
		len(failure.Nearest) > 0 && failure.Nearest[0] == "engine.block_size"
	fmt.Printf("an error on purpose: %v\n", err)
	return good
}

// ---- main ----

func main() {
	key := ""
	if len(os.Args) > 1 {
		key = os.Args[1]
	}

	// Work.
	showLibrary()
	fmt.Printf("%d options shown\n", showOptions(key))
	options := must(rl.NewOptions())
	check(options.Set("engine.block_size", "64"))
	blockSize := must(options.GetInt("engine.block_size"))

	// Check.
	good := showError(options) && blockSize == 64

	// End.
	options.Close()
	if !good {
		fmt.Fprintln(os.Stderr, "1_hello: the library did not behave as expected")
		os.Exit(1)
	}
}
