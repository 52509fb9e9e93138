package redistest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// words are what commands begin with, and some that only look like it.
var words = strings.Fields("HELLO 3 CLIENT SET GET HSET HGETALL DEL KEYS SCAN EVAL EVALSHA SCRIPT LOAD MULTI EXEC " +
	"SUBSCRIBE BLPOP SETRANGE 99999999999 -1 0 1e300 * a*b*c*d vitrine:banners fresh_until INFO DEBUG SHUTDOWN AUTH SELECT")

// Hostile returns bytes for a server that speaks Redis's protocol: commands, half of one, such with
// wrong, negative or endless lengths, a million elements, other protocols, noise.
func Hostile(chance *rand.Rand) []byte {
	number := func() string {
		return []string{"0", "1", "3", "-1", "+2", "00007", "65537", "1048577", "99999999", "2147483648", "9223372036854775807", "99999999999999999999", "1e9", "", "x"}[chance.IntN(15)]
	}
	var text []byte
	switch chance.IntN(8) {
	case 0: // noise
		for range chance.IntN(2000) {
			text = append(text, byte(chance.Uint32()))
		}
		return text
	case 1: // announced, and not sent
		return fmt.Appendf(nil, "*%s\r\n$%s\r\n%s", number(), number(), words[chance.IntN(len(words))])
	case 2: // a line without end
		return append([]byte{"*$+-:"[chance.IntN(5)]}, bytes.Repeat([]byte("1"), chance.IntN(100_000))...)
	case 3: // a million elements
		return append([]byte("*1000000\r\n"), bytes.Repeat([]byte("$1\r\na\r\n"), 10_000)...)
	case 4:
		return []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + number() + "\r\n\r\nFLUSHALL\r\n")
	}
	for range 1 + chance.IntN(4) { // commands of words that may be long, one in four with a wrong length
		n := 1 + chance.IntN(6)
		text = fmt.Appendf(text, "*%d\r\n", n)
		for range n {
			word := words[chance.IntN(len(words))]
			if chance.IntN(20) == 0 {
				word = strings.Repeat(word, chance.IntN(5000))
			}
			length := fmt.Sprint(len(word))
			if chance.IntN(20) == 0 {
				length = number()
			}
			text = fmt.Appendf(text, "$%s\r\n%s\r\n", length, word)
		}
	}
	return text[:len(text)-chance.IntN(2)*chance.IntN(len(text))]
}
