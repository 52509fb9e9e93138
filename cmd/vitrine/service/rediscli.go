package service

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
)

// redisCLI is a redis-cli command that reaches the Redis at a URL, which was opened, with words for
// Redis. It asks for the password, if there is one.
func redisCLI(at string, words ...string) string {
	return strings.Join(quoted(append(redisCLIOf(at), words...)), " ")
}

// redisCLIOf is redis-cli with the options that reach the Redis at a URL.
func redisCLIOf(at string) []string {
	words := []string{"redis-cli"}
	u, err := url.Parse(at)
	if err != nil { // it was opened
		return words
	}
	query := u.Query()
	if query.Has("master_name") {
		return append(words, "-h", "MASTER") // the Sentinels know which one it is
	}
	if u.Scheme == "unix" {
		words = append(words, "-s", u.Path)
	} else {
		if host := u.Hostname(); host != "" && host != "127.0.0.1" && host != "localhost" {
			words = append(words, "-h", host)
		}
		words = append(words, "-p", cmp.Or(u.Port(), "6379"))
	}
	if u.Scheme == "rediss" {
		words = append(words, "--tls")
	}
	if query.Has("addr") {
		words = append(words, "-c")
	}
	if db := strings.Trim(u.Path, "/"); u.Scheme != "unix" && db != "" && db != "0" {
		words = append(words, "-n", db)
	} else if db := query.Get("db"); db != "" && db != "0" {
		words = append(words, "-n", db)
	}
	if name := u.User.Username(); name != "" {
		words = append(words, "--user", name)
	}
	if _, has := u.User.Password(); has {
		words = append(words, "--askpass")
	}
	return words
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\w:./@%+-]+$`)

// quoted are words quoted for a shell.
func quoted(words []string) (all []string) {
	for _, word := range words {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		all = append(all, word)
	}
	return all
}
