package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

// commandLine is every command. Each has a Run method in a file of its name.
type commandLine struct {
	Serve       serveCommand       `cmd:"" default:"withargs" help:"Serve the three routes. The default command."`
	Check       checkCommand       `cmd:"" help:"Check the configuration: reach Redis and the CMS, fetch everything once, and report."`
	Purge       purgeCommand       `cmd:"" help:"Remove documents from the cache, so that they are fetched again."`
	Status      statusCommand      `cmd:"" help:"Show what a running vitrine holds, and the state of its CMS and Redis."`
	Config      configCommand      `cmd:"" help:"Print the configuration in effect, with the origin of each value."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check whether a running vitrine is ready; for containers."`
	SampleCMS   sampleCMSCommand   `cmd:"" name:"sample-cms" help:"Serve the bundled content as the CMS would, for demos."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// run parses args and runs the command they name until it is done or ctx ends. It returns the exit
// code.
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
	parsed, err := parser.Parse(args)
	switch {
	case helped: // --help has printed; the rest does not matter
		return exitDone
	case err != nil:
		return exit(p.stderr, &usageError{fmt.Errorf("%w; see vitrine --help", err)})
	}
	return exit(p.stderr, parsed.Run())
}
