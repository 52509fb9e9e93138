// Command platforms checks the types of packages as another platform has them: all of their own
// files, and of what they import all but the bodies of functions. Nothing is compiled, so that it
// takes seconds.
//
//	platforms [-test] OS/ARCH PACKAGE...
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	tests := flag.Bool("test", false, "their tests as well")
	flag.Parse()
	system, arch, _ := strings.Cut(flag.Arg(0), "/")
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Tests: *tests,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
	}, flag.Args()[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
	if packages.PrintErrors(found) > 0 {
		os.Exit(1)
	}
}
