package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLine is every command. Each has a Run method in a file of its name.
type commandLine struct {
	Serve       serveCommand       `cmd:"" default:"withargs" help:"Serve the three routes. The default command."`
	Check       checkCommand       `cmd:"" help:"Check the configuration: reach Redis and the CMS, fetch everything once, and report."`
	Purge       purgeCommand       `cmd:"" help:"Remove documents from the cache, so that they are fetched again."`
	History     historyCommand     `cmd:"" help:"List the earlier versions of the documents, or print one."`
	Restore     restoreCommand     `cmd:"" help:"Serve an earlier version of a document on every replica, for a time."`
	Accept      acceptCommand      `cmd:"" help:"Accept the next document of a resource, although it would be held back."`
	Status      statusCommand      `cmd:"" help:"Show what a running vitrine holds, and the state of its CMS and Redis."`
	Config      configCommand      `cmd:"" help:"Print the configuration in effect, with the origin of each value."`
	Presets     presetsCommand     `cmd:"" help:"List the presets of CMSs, or print one to copy and change."`
	Notify      notifyCommand      `cmd:"" help:"Send a test to those who are told of changes and purges."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check whether a running vitrine is ready; for containers."`
	SampleCMS   sampleCMSCommand   `cmd:"" name:"sample-cms" help:"Serve the bundled content as the CMS would, for demos."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// details are what --help of a command says below its one line.
var details = map[string]string{
	"serve": `Without settings it serves bundled content from a store inside the process.

Examples:

  vitrine
  vitrine --upstream-url https://cms.example --redis-url redis://127.0.0.1:6379
  VITRINE_UPSTREAM_AUTHORIZATION_FILE=/run/secrets/cms vitrine serve --config vitrine.yaml`,
	"check": `Fetches each resource from the CMS, without any cache, and reports what was received, repaired, dropped and refused, and what the documents look like. A folder can hold saved responses instead: banners.json, or banners.http as curl -i prints it. Exit code 0: all is well; 1: a check failed, or a document would be refused, or, with --diff, held back; 2: invalid configuration.

Examples:

  vitrine check --upstream-url https://cms.example
  vitrine check --upstream-url file:saved
  vitrine check --json | jq .resources.banners
  vitrine check --diff
  vitrine check --print banners | jq .
  vitrine check --explain banners
  vitrine check --record saved && vitrine check --upstream-url file:saved`,
	"purge": `Every replica on the same Redis is notified.

Examples:

  vitrine purge banners
  vitrine purge --history banners
  vitrine purge --soft --redis-url redis://127.0.0.1:6379`,
	"history": `The last ten different documents of each resource, newest first: version, when it became the present one, what changed from the one before.

Examples:

  vitrine history
  vitrine history banners
  vitrine history banners 0a1b2c3d4e5f | jq .`,
	"restore": `Nothing is fetched for the resource until the time is over, until vitrine restore RESOURCE latest, or until a hard purge.

Examples:

  vitrine restore banners 0a1b2c3d4e5f --for 30m
  vitrine restore banners latest`,
	"accept": `A document that loses too much of the one held is held back. This takes it, or what the CMS has by then.

Examples:

  vitrine accept catalogue`,
	"status": `Requests the status at the configured operator's address, with its token. Exit code 0: all resources are held; 1: one is missing, or vitrine cannot be reached.

Examples:

  vitrine status
  watch vitrine status
  vitrine status --json | jq .resources.banners
  VITRINE_ADMIN_TOKEN_FILE=/run/secrets/operator vitrine status --url http://10.0.0.7:9090`,
	"config": `The output can be used as the file, once its secrets, which are masked, are filled in.

Examples:

  vitrine config
  VITRINE_TTL=5m vitrine config --config vitrine.yaml`,
	"presets": `A preset has the keys shared and resources, as below upstream in the file.

Examples:

  vitrine presets
  vitrine presets strapi5 > mine.yaml
  vitrine check --upstream-preset ./mine.yaml --upstream-url https://cms.example`,
	"notify": `Targets are those of notify in the file. The test is about a resource called test, so a cache removes nothing. Exit code 0: all were told; 1: one was not.

Examples:

  vitrine notify --dry-run
  vitrine notify edge --config vitrine.yaml`,
	"healthcheck": `Requests /readyz at the operator's address, or, if that is off, each public route. Exit code 0: ready; 1: not.

Examples:

  vitrine healthcheck
  vitrine healthcheck --url http://127.0.0.1:8000/healthz`,
	"sample-cms": `Examples:

  vitrine sample-cms --delay 300ms
  vitrine serve --upstream-url http://127.0.0.1:8000`,
	"version": `Examples:

  vitrine version
  vitrine version --json | jq -r .commit`,
}

// run parses args and runs the command they name until it is done or ctx ends. It returns the exit
// code.
func run(ctx context.Context, args []string, p program) int {
	var commands commandLine
	for field, command := range reflect.ValueOf(&commands).Elem().Fields() {
		// To make the flags of all commands would take most of the time of many a command.
		run := field.Name == "Serve" || slices.Contains(args, strings.ToLower(field.Name))
		if c, ok := command.Addr().Interface().(interface{ fromTable() }); ok && run {
			c.fromTable()
		}
	}
	helped := false
	parser, err := kong.New(&commands,
		kong.Name("vitrine"),
		kong.Description("A caching proxy in front of a gallery's CMS. Flags override environment variables, which override the YAML file, which overrides the defaults."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	if err != nil {
		return exit(p.stderr, fmt.Errorf("command line: %w", err))
	}
	for _, command := range parser.Model.Children {
		command.Detail = details[command.Name]
	}
	if slices.Equal(args, []string{"--version"}) { // as most programs have it
		args = []string{"version"}
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
