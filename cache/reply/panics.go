package reply

import "fmt"

// Recover calls f, and makes an error of its panic: a client's parsers index and assert what a server
// sends.
func Recover(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("redis: panic over a reply: %v", p)
		}
	}()
	return f()
}
