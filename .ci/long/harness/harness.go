// Package harness runs a built vitrine for the long tests, which talk to it over sockets alone.
//
// [Main] builds the program, unless LONG_PROGRAM is its path, and puts its folder in front of the
// PATH. A [Child] is one process of it. LONG_VOLUME says how much the tests try: see [Volume].
package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// Root is the repository, from a package of this module.
var Root = filepath.Join("..", "..", "..")

// Routes are the public paths.
var Routes = map[shape.Resource]string{
	shape.Catalogue: "/gvapp/", shape.Rules: "/cms/rules/", shape.Banners: "/gvapp/singlebanner",
}

// Main runs the tests of a package with the program in the PATH.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	program := os.Getenv("LONG_PROGRAM")
	if program == "" {
		dir, err := os.MkdirTemp("", "vitrine")
		if err == nil {
			defer os.RemoveAll(dir)
			program = filepath.Join(dir, "vitrine")
			err = Build(program)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if filepath.Base(program) != "vitrine" || !filepath.IsAbs(program) {
		fmt.Fprintf(os.Stderr, "LONG_PROGRAM is %s: want the absolute path of a program named vitrine\n", program)
		return 1
	}
	// The servers that tests start are where only root's PATH leads on Debian.
	path := filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH") + string(os.PathListSeparator) + "/usr/sbin"
	if err := os.Setenv("PATH", path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build compiles the program, with more flags of go build.
func Build(program string, flags ...string) error {
	command := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), "./cmd/vitrine")...)
	command.Dir = Root
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// A Change is made to a source file before it is compiled: From, which stands there once, becomes
// To. Without From, To is a file of its own.
type Change struct{ File, From, To string }

// BuildChanged compiles the program with changes that exist nowhere else, and returns its path.
func BuildChanged(t testing.TB, changes ...Change) (program string) {
	t.Helper()
	dir, texts, replace := t.TempDir(), map[string]string{}, map[string]string{}
	for _, c := range changes {
		file, err := filepath.Abs(c.File)
		testkit.Must(t, err)
		text, known := texts[file]
		if c.From != "" && !known {
			content, err := os.ReadFile(file)
			testkit.Must(t, err)
			text = string(content)
		}
		if c.From != "" && strings.Count(text, c.From) != 1 {
			t.Fatalf("%s does not have %q once", c.File, c.From)
		}
		texts[file] = strings.Replace(text, c.From, c.To, 1)
		replace[file] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		testkit.Must(t, os.WriteFile(replace[file], []byte(texts[file]), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	testkit.Must(t, err)
	program = filepath.Join(dir, "vitrine")
	testkit.Must(t, Build(program, "-overlay", File(t, "overlay.json", string(overlay))))
	return program
}

// Volume is how much a test tries: 1 unless LONG_VOLUME has another number. A test multiplies with
// it what it repeats or picks at random.
func Volume(t testing.TB) int {
	t.Helper()
	text := os.Getenv("LONG_VOLUME")
	if text == "" {
		return 1
	}
	volume, err := strconv.Atoi(text)
	if err != nil || volume < 1 {
		t.Fatalf("LONG_VOLUME is %q, want a number from 1", text)
	}
	return volume
}

// Need returns the path of a tool. Where it is missing, the test is skipped and says how to get it;
// it fails in CI.
func Need(t testing.TB, tool, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is needed: apt-get install %s", tool, debianPackage)
	}
	t.Skipf("%s is not installed: apt-get install %s", tool, debianPackage)
	return ""
}

// Module is the folder of a module of its own, whose dependencies are there. Where they cannot be
// had, the test is skipped; it fails in CI.
func Module(t testing.TB, folder ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{Root}, folder...)...)
	out, err := exec.Command("go", "-C", dir, "mod", "download").CombinedOutput()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("go -C %s mod download: %v\n%s", dir, err, out)
	}
	if err != nil {
		t.Skipf("needs modules, which a proxy has: go -C %s mod download: %v\n%s", filepath.Join(folder...), err, out)
	}
	return dir
}

// FreeAddress is one that can be listened on again after it was given up.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
}

// IsWellAt wants 200.
func IsWellAt(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: status %d", url, response.StatusCode)
	}
	return nil
}

// WaitUntilWell waits for 200.
func WaitUntilWell(t testing.TB, url string) {
	t.Helper()
	testkit.Must(t, testkit.Retry(func() error { return IsWellAt(url) }))
}

// Redis sends one command to a Redis over a connection of its own, as redis-cli would.
func Redis(t testing.TB, address, command string) {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	testkit.Must(t, err)
	defer connection.Close()
	words := strings.Fields(command)
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := connection.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	if reply, err := bufio.NewReader(connection).ReadString('\n'); err != nil || strings.HasPrefix(reply, "-") {
		t.Fatalf("%s: %s%v", command, reply, err)
	}
}
