package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

// commandLine is every command. Each has a Run method in a file of its name.
type commandLine struct {
	Serve       serveCommand       `cmd:"" default:"withargs" help:"Serve the three routes. This is what vitrine does when no command is named."`
	Check       checkCommand       `cmd:"" help:"Try the configuration: reach Redis and the CMS, fetch everything once, and report."`
	Purge       purgeCommand       `cmd:"" help:"Remove documents from the cache, so that they are fetched anew."`
	Status      statusCommand      `cmd:"" help:"Show what a running vitrine holds, and how its CMS and Redis are."`
	Config      configCommand      `cmd:"" help:"Print the configuration in effect, and where each value came from."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running vitrine whether it is ready; for containers."`
	SampleCMS   sampleCMSCommand   `cmd:"" name:"sample-cms" help:"Serve the bundled content as the CMS would, for demos."`
	Completion  completionCommand  `cmd:"" help:"Print what bash, zsh or fish needs to complete vitrine's commands and flags."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// run parses args and runs the command they name until it is done or ctx
// ends. It returns the exit code.
func run(ctx context.Context, args []string, p program) int {
	var commands commandLine
	for _, flags := range []*settingsFlags{
		&commands.Serve.settingsFlags, &commands.Check.settingsFlags, &commands.Purge.settingsFlags,
		&commands.Config.settingsFlags, &commands.Healthcheck.settingsFlags, &commands.Status.settingsFlags,
	} {
		flags.fromTable()
	}
	helped := false
	parser, err := kong.New(&commands,
		kong.Name("vitrine"),
		kong.Description("A caching proxy in front of a gallery's CMS. Settings come from flags, over environment, over a YAML file, over defaults."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	if err != nil {
		return exit(p.stderr, fmt.Errorf("command line: %w", err))
	}
	if len(args) > 0 && args[0] == completeWord {
		return exit(p.stderr, complete(p.stdout, parser.Model.Node, args[1:]))
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped: // --help has printed, and what was parsed after it does not matter
		return exitDone
	case err != nil:
		return exit(p.stderr, &usageError{fmt.Errorf("%w; see vitrine --help", err)})
	}
	return exit(p.stderr, parsed.Run())
}
