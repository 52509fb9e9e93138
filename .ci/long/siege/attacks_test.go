// Package siege holds vitrine to its budgets of memory and descriptors while it is attacked.
package siege

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// A siege is a vitrine and its attackers.
type siege struct {
	public, operator, store string
	secure                  bool // the public address has TLS
	done                    chan struct{}
	all                     sync.WaitGroup
	open, most              atomic.Int64 // connections of attackers
}

// TestMain is the tests, or, in a process that they start, attackers.
func TestMain(m *testing.M) {
	if os.Getenv(besiegers) != "" {
		besieger()
		return
	}
	harness.Main(m)
}

// besiegers is set for a process of attackers.
const besiegers = "LONG_BESIEGERS"

// besieger runs an attack on addresses. It ends with its input, and then prints the most connections
// that it had.
func besieger() {
	s := &siege{public: os.Args[2], operator: os.Args[3], store: os.Args[4], secure: os.Args[5] == "true", done: make(chan struct{})}
	for _, a := range attacks {
		if a.name == os.Args[1] {
			a.run(s)
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(s.done)
	s.all.Wait()
	_, _ = fmt.Fprint(os.Stdout, s.most.Load())
}

// begin starts an attack in a process of the lowest priority, and returns what ends it and returns
// the most connections that it had.
func (s *siege) begin(t *testing.T, name string) (end func() int) {
	t.Helper()
	program, err := os.Executable()
	testkit.Must(t, err)
	attackers := exec.Command("nice", "-n", "19", program, name, s.public, s.operator, s.store, strconv.FormatBool(s.secure))
	attackers.Env = append(os.Environ(), besiegers+"=yes")
	attackers.Stderr = t.Output()
	var out bytes.Buffer
	attackers.Stdout = &out
	in, err := attackers.StdinPipe()
	if err == nil {
		err = attackers.Start()
	}
	testkit.Must(t, err)
	<-time.After(time.Second)
	return func() (most int) {
		_ = in.Close()
		if err := attackers.Wait(); err != nil {
			t.Errorf("the attackers: %v", err)
		}
		_, _ = fmt.Sscan(out.String(), &most)
		return most
	}
}

// by has n attackers connect to an address, again and again, until the end.
func (s *siege) by(n int, address string, attack func(c *net.TCPConn, random *rand.Rand)) {
	done := s.done
	for i := range n {
		s.all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := net.Dial("tcp", address)
				if err != nil {
					s.wait(10 * time.Millisecond) // refused, or there is no port left
					continue
				}
				open := s.open.Add(1)
				for most := s.most.Load(); open > most && !s.most.CompareAndSwap(most, open); {
					most = s.most.Load()
				}
				ended := make(chan struct{})
				go func() {
					select {
					case <-done:
					case <-ended:
					}
					_ = c.Close()
				}()
				_ = c.(*net.TCPConn).SetLinger(0)
				attack(c.(*net.TCPConn), random)
				close(ended)
				s.open.Add(-1)
			}
		})
	}
}

// over is c with TLS, if the public address has it. The certificate is made up.
func (s *siege) over(c net.Conn) net.Conn {
	if !s.secure {
		return c
	}
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
}

// dial connects to the public address.
func (s *siege) dial() (net.Conn, error) {
	c, err := net.Dial("tcp", s.public)
	if err != nil {
		return nil, err
	}
	return s.over(c), nil
}

// visit wants 200.
func (s *siege) visit(path string) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "HEAD %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, " 200 ") {
		err = errors.New(line)
	}
	return err
}

// wait pauses, and reports whether the siege goes on.
func (s *siege) wait(d time.Duration) bool {
	select {
	case <-s.done:
		return false
	case <-time.After(d):
		return true
	}
}

// drip sends a beginning, and then a piece every tenth of a second, for as long as it may.
func (s *siege) drip(c net.Conn, beginning, piece string) {
	_, err := io.WriteString(c, beginning)
	for err == nil && s.wait(100*time.Millisecond) {
		_, err = io.WriteString(c, piece)
	}
}

// repeat sends requests and reads the answers, a piece at a time if slowly.
func repeat(c net.Conn, slowly bool, method string, request func() string) {
	from := bufio.NewReaderSize(c, 4<<10)
	for {
		if _, err := io.WriteString(c, request()); err != nil {
			return
		}
		response, err := http.ReadResponse(from, &http.Request{Method: method})
		for err == nil && slowly {
			_, err = io.CopyN(io.Discard, response.Body, 16<<10)
			<-time.After(10 * time.Millisecond)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
		}
		if response != nil {
			_ = response.Body.Close()
		}
		if err != nil && err != io.EOF {
			return
		}
	}
}

// neverSeen is a request for a new ordering and indentation.
func neverSeen(method string, random *rand.Rand) string {
	fields := shape.BannerFields()
	random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for i := range fields {
		fields[i] = []string{"", "-"}[random.IntN(2)] + fields[i]
	}
	return fmt.Sprintf("%s /gvapp/singlebanner?ordering=%s HTTP/1.1\r\nHost: x\r\nAccept: application/json; indent=%d\r\nAccept-Encoding: %s\r\n\r\n",
		method, strings.Join(fields, ","), random.IntN(9), []string{"br", "gzip", "zstd", "identity"}[random.IntN(4)])
}

const idleOnly = "idle connections alone"

// An attack is what unauthenticated clients try.
type attack struct {
	name string
	run  func(s *siege)
	more int // memory that it may take besides

	secure bool // over TLS
}

var attacks = []attack{
	{idleOnly, func(*siege) {}, 0, false},
	{"orderings never seen, HEAD", func(s *siege) {
		s.by(64, s.public, func(c *net.TCPConn, random *rand.Rand) {
			repeat(c, false, "HEAD", func() string { return neverSeen("HEAD", random) })
		})
	}, 0, false},
	{"orderings never seen, read slowly", func(s *siege) {
		s.by(256, s.public, func(c *net.TCPConn, random *rand.Rand) {
			repeat(c, true, "GET", func() string { return neverSeen("GET", random) })
		})
	}, 0, false},
	{"answers that nobody reads", func(s *siege) {
		s.by(256, s.public, func(c *net.TCPConn, random *rand.Rand) {
			_ = c.SetReadBuffer(1)
			for range 100 {
				if _, err := io.WriteString(c, neverSeen("GET", random)); err != nil {
					return
				}
			}
			s.wait(time.Second)
		})
	}, 0, false},
	{"headers, slowly", func(s *siege) {
		s.by(500, s.public, func(c *net.TCPConn, _ *rand.Rand) { s.drip(c, "GET / HTTP/1.1\r\nHost: x\r\n", "X: y\r\n") })
	}, 0, false},
	{"bodies, slowly", func(s *siege) {
		s.by(500, s.public, func(c *net.TCPConn, _ *rand.Rand) {
			s.drip(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", "x")
		})
	}, 0, false},
	{"bodies in pieces, with extensions and trailers without end", func(s *siege) {
		s.by(64, s.public, func(c *net.TCPConn, random *rand.Rand) {
			endless := []string{"1;", "0\r\nX: "}[random.IntN(2)]
			_, err := io.WriteString(c, "POST /gvapp/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+endless)
			for piece := strings.Repeat("x", 64<<10); err == nil; {
				_, err = io.WriteString(c, piece)
			}
		})
	}, 0, false},
	{"connections, opened and closed", func(s *siege) { s.by(32, s.public, func(*net.TCPConn, *rand.Rand) {}) }, 0, false},
	{"headers of a thousand lines", func(s *siege) {
		lines := strings.Repeat("Accept: a/b\r\n", 850)
		s.by(64, s.public, func(c *net.TCPConn, _ *rand.Rand) {
			repeat(c, false, "HEAD", func() string { return "HEAD /gvapp/ HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n" })
		})
	}, 0, false},
	{"headers without end, and no HTTP", func(s *siege) {
		s.by(64, s.public, func(c *net.TCPConn, random *rand.Rand) {
			sent := strings.Repeat("X: yyyyyyyyyyyyyyyyyyyyyyy\r\n", 1<<15)
			if random.IntN(2) == 0 {
				sent = "\x16\x03\x01\x02\x00" + strings.Repeat("\x01\xff", 1<<15)
			}
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n"+sent)
		})
	}, 0, false},
	{"the admin address", func(s *siege) {
		s.by(100, s.operator, func(c *net.TCPConn, random *rand.Rand) {
			request := "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
			if random.IntN(2) == 0 {
				request = "POST /hooks/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nX-Vitrine-Signature: " +
					strings.Repeat("ab", 32) + "\r\n\r\n" + strings.Repeat("x", 1_000_000)
			}
			repeat(c, false, "GET", func() string { return request })
		})
		s.by(100, s.operator, func(c *net.TCPConn, random *rand.Rand) {
			cheap := []string{"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n", "POST /hooks/content HTTP/1.1\r\nHost: localhost\r\n\r\n"}
			repeat(c, false, "GET", func() string { return cheap[random.IntN(len(cheap))] })
		})
		s.by(300, s.operator, func(c *net.TCPConn, _ *rand.Rand) { s.drip(c, "GET / HTTP/1.1\r\nHost: x\r\n", "X: y\r\n") })
	}, 32 << 20, false}, // eight bodies of 1 MiB at a time, and what reading them leaves
	{"handshakes of TLS, whole and unfinished", func(s *siege) {
		s.by(64, s.public, func(c *net.TCPConn, _ *rand.Rand) {
			_ = s.over(c).(*tls.Conn).Handshake() // and that is all
		})
		s.by(500, s.public, func(c *net.TCPConn, _ *rand.Rand) { s.drip(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "x") })
	}, 0, true},
	{"the embedded store", func(s *siege) {
		s.by(300, s.store, func(c *net.TCPConn, random *rand.Rand) {
			sent := []string{"*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n", "*2\r\n$4\r\nAUTH\r\n$3\r\nabc\r\n", "*9999\r\n$9999999\r\n"}
			for range 20 {
				if _, err := io.WriteString(c, sent[random.IntN(len(sent))]); err != nil {
					return
				}
			}
			s.wait(100 * time.Millisecond)
		})
	}, 0, false},
}

// The memory of a connection: 6 KB when it is idle, and as much again that the garbage collector,
// which counts stacks, leaves for later while there is work. One whose handshake has not ended
// takes another 6 KB for that.
const (
	idleBudget       = 6_000
	connectionBudget = 2 * idleBudget
	secureBudget     = 6_000
)
