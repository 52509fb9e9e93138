package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config"
)

// load is Load for what must be right.
func load(t *testing.T, sources config.Sources) config.Config {
	t.Helper()
	c, err := config.Load(sources)
	testkit.Must(t, err)
	return c
}

// write puts text into a file of its own and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vitrine.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// As in a file of systemd's, from which a command takes the environment of the installed service.
func TestTheLastOfTwoVariablesOfOneNameCounts(t *testing.T) {
	file := write(t, "redis: {prefix: '${NAME}'}")
	c := load(t, config.Sources{Environ: []string{
		"NAME=one", "VITRINE_CONFIG=nowhere.yaml", "VITRINE_LISTEN=:1", "VITRINE_TTL=1s",
		"NAME=two", "VITRINE_CONFIG=" + file, "VITRINE_LISTEN=:2", "VITRINE_TTL=",
	}})
	if c.Redis.Prefix != "two" || c.Listen != ":2" || c.TTL.Default != time.Minute {
		t.Errorf("prefix %q, listen %q, ttl %v", c.Redis.Prefix, c.Listen, c.TTL.Default)
	}
}

func TestTheGeneralTTLStandsForWhoHasNoneOfHisOwn(t *testing.T) {
	c := load(t, config.Sources{File: write(t, "ttl:\n  banners: 5s"), Environ: []string{"VITRINE_TTL=2m"}})
	if want := (config.TTL{Default: 2 * time.Minute, ByResource: config.ByResource[time.Duration]{Catalogue: 2 * time.Minute, Rules: 2 * time.Minute, Banners: 5 * time.Second}}); c.TTL != want {
		t.Errorf("got %+v, want %+v", c.TTL, want)
	}
	if c = load(t, config.Sources{File: write(t, "ttl: 3s")}); c.TTL.Rules != 3*time.Second {
		t.Errorf("the short form gives %v, want 3s", c.TTL.Rules)
	}
}

func TestAnEmptyVariableSaysNothingUnlessNothingIsAValue(t *testing.T) {
	c := load(t, config.Sources{
		File:    write(t, "upstream:\n  authorization: Token a"),
		Environ: []string{"VITRINE_TTL=", "VITRINE_UPSTREAM_AUTHORIZATION=", "VITRINE_ADMIN_LISTEN=", "VITRINE_CORS_ORIGINS="},
	})
	if c.TTL.Default != time.Minute || c.Upstream.Authorization.Reveal() != "Token a" {
		t.Errorf("an empty variable changed TTL to %v or the authorization to %d characters", c.TTL.Default, len(c.Upstream.Authorization.Reveal()))
	}
	if c.Admin.Listen != "" || len(c.CORS.Origins) != 0 {
		t.Errorf("an empty variable did not switch off: admin %q, origins %q", c.Admin.Listen, c.CORS.Origins)
	}
}

func TestTheStrongerOfAValueAndItsFileCounts(t *testing.T) {
	secret := write(t, "redis://from-the-file\n")
	c := load(t, config.Sources{
		Environ: []string{"VITRINE_REDIS_URL_FILE=" + secret},
		Flags:   map[string]string{"redis-url": "redis://from-the-flag"},
	})
	if got := c.Redis.URL.Reveal(); got != "redis://from-the-flag" || c.Redis.URLFile != "" {
		t.Errorf("redis.url = %q with file %q, want the flag's", got, c.Redis.URLFile)
	}
	c = load(t, config.Sources{
		File:    write(t, "redis:\n  url: redis://from-the-yaml"),
		Environ: []string{"VITRINE_REDIS_URL_FILE=" + secret},
	})
	if got := c.Redis.URL.Reveal(); got != "redis://from-the-file" {
		t.Errorf("redis.url = %q, want the environment's", got)
	}
}

// One file per rule; its first line is a comment with the message.
func TestEachMistakeInAFileIsNamedWithItsLine(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "invalid"))
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			testkit.Must(t, err)
			first, _, _ := strings.Cut(string(content), "\n")
			want := strings.TrimPrefix(first, "# ")
			_, err = config.Load(config.Sources{File: file})
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if !errors.Is(err, config.ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
		})
	}
}

// testdata/script/wrong.txtar of the command has what is typed most often.
func TestMistakesOutsideTheFileAreNamedWithTheirOrigin(t *testing.T) {
	empty := write(t, "\n")
	unusable, short := write(t, "hunter2:not an address"), write(t, "sesame")
	for name, test := range map[string]struct {
		environ []string
		flags   map[string]string
		want    string
	}{
		"name without likeness": {
			environ: []string{"VITRINE_SOMETHING_ELSE_ALTOGETHER=1"},
			want:    "VITRINE_SOMETHING_ELSE_ALTOGETHER (environment): no such setting; known are VITRINE_ADMIN_HOSTS, VITRINE_ADMIN_LISTEN, VITRINE_ADMIN_PPROF, ",
		},
		"long value": {
			environ: []string{"VITRINE_TTL=\x1b[2J" + strings.Repeat("x", 100_000) + "…"},
			want:    `VITRINE_TTL (environment): want a duration such as 90s, 15m or 24h, from 10ms to 8760h, got "\x1b[2J` + strings.Repeat("x", 292) + "…",
		},
		"empty flag": {
			flags: map[string]string{"redis-url": ""},
			want:  `--redis-url (flag): want embedded:, embedded:PORT or embedded:127.0.0.1:PORT (loopback alone), redis://HOST[:PORT][/DB], rediss:// or unix://PATH, got nothing`,
		},
		"empty secret": {
			environ: []string{"VITRINE_UPSTREAM_AUTHORIZATION_FILE=" + empty},
			want:    `VITRINE_UPSTREAM_AUTHORIZATION_FILE (environment): want a file that can be read and is not empty, got "` + empty + `": it is empty`,
		},
		"secret that is a device": {
			environ: []string{"VITRINE_UPSTREAM_AUTHORIZATION_FILE=/dev/zero"},
			want:    `VITRINE_UPSTREAM_AUTHORIZATION_FILE (environment): want a file that can be read and is not empty, got "/dev/zero": it is not a regular file`,
		},
		"unusable secret": {
			environ: []string{"VITRINE_REDIS_URL_FILE=" + unusable},
			want:    `VITRINE_REDIS_URL_FILE (environment): want a file with embedded:, embedded:PORT or embedded:127.0.0.1:PORT (loopback alone), redis://HOST[:PORT][/DB], rediss:// or unix://PATH, got "` + unusable + `"`,
		},
		"secret too short": {
			environ: []string{"VITRINE_HOOK_SECRET_FILE=" + short},
			want:    `VITRINE_HOOK_SECRET_FILE (environment): want a file with 8 to 512 printable ASCII characters without spaces, got "` + short + `"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Sources{Environ: test.environ, Flags: test.flags})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := config.Load(config.Sources{
		File:    write(t, "listen: nowhere\nunknown_thing: 1\nredis:\n  prefix: '*'\nhook: {secret: [a], secret_file: b}\n"),
		Environ: []string{"VITRINE_TTL=abc", "VITRINE_TLL=60s"},
		Flags:   map[string]string{"log-level": "loud"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 8 {
		t.Errorf("got %d lines, want 8:\n%v", len(lines), err)
	}
	for _, name := range []string{"listen (", "unknown_thing (", "redis.prefix (", "hook.secret (", "hook.secret_file (", "VITRINE_TTL (", "VITRINE_TLL (", "--log-level ("} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("nothing about %s) in\n%v", name, err)
		}
	}
}

// A Service called vitrine makes Kubernetes set these in every pod.
func TestServiceLinksOfKubernetesAreNoSettings(t *testing.T) {
	load(t, config.Sources{Environ: []string{
		"VITRINE_SERVICE_HOST=10.0.0.1", "VITRINE_SERVICE_PORT=8080", "VITRINE_SERVICE_PORT_HTTP=8080",
		"VITRINE_PORT=tcp://10.0.0.1:8080", "VITRINE_PORT_8080_TCP=tcp://10.0.0.1:8080", "VITRINE_PORT_8080_TCP_PROTO=tcp",
		"VITRINE_PORT_8080_TCP_PORT=8080", "VITRINE_PORT_8080_TCP_ADDR=10.0.0.1", "VITRINE_REDIS_SERVICE_HOST=10.0.0.2",
	}})
	if _, err := config.Load(config.Sources{Environ: []string{"VITRINE_PORT=8080"}}); err == nil {
		t.Error("VITRINE_PORT=8080 passes for a service link")
	}
}

func TestSizesAreReadInTheUsualForms(t *testing.T) {
	for text, want := range map[string]config.Size{
		"1024": 1024, "512B": 512, "64KiB": 64 << 10, "64 kib": 64 << 10, "1.5M": 1500000, "1mb": 1000000, "1Ki": 1024, "0.5GiB": 1 << 29,
		"": 0, "KiB": 0, "12 XB": 0, "1IB": 0, "-1": 0, "1e3": 0, "1.2.3": 0, "0x10": 0, "1KK": 0, "1,5G": 0, "9999999EiB": 0,
	} {
		c, err := config.Load(config.Sources{File: write(t, fmt.Sprintf("upstream: {max_bytes: %q}", text))})
		if (err == nil) != (want > 0) || c.Upstream.MaxBytes != want {
			t.Errorf("%q is %d (%v), want %d", text, c.Upstream.MaxBytes, err, want)
		}
	}
}

func TestAFileWithoutEndIsRefused(t *testing.T) {
	endless := write(t, strings.Repeat("# x\n", 1<<18)+"#")
	for _, sources := range []config.Sources{{File: endless}, {Environ: []string{"VITRINE_UPSTREAM_PRESET=" + endless}}} {
		if _, err := config.Load(sources); err == nil || !strings.HasSuffix(err.Error(), ": it has more than 1MiB") {
			t.Errorf("%v", err)
		}
	}
}

// A file of other people's keys, or of another format, costs no more than its size.
func TestThousandsOfMistakesAreReportedAtOnceToo(t *testing.T) {
	began := time.Now()
	var text strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&text, "key%d: 1\n", i)
	}
	_, err := config.Load(config.Sources{File: write(t, text.String())})
	if err == nil || strings.Count(err.Error(), "\n") != 8999 {
		t.Errorf("%.300v", err)
	}
	if took := time.Since(began); took > testkit.Patience/3 {
		t.Errorf("it took %v", took)
	}
}
