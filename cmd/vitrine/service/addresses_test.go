package service

import "testing"

func TestAListenerIsFoundOnThisMachine(t *testing.T) {
	for listen, want := range map[string]string{
		":8080":           "http://127.0.0.1:8080",
		"0.0.0.0:8080":    "http://127.0.0.1:8080",
		"[::]:8080":       "http://[::1]:8080",
		"localhost:8080":  "http://localhost:8080",
		"10.0.0.1:80":     "http://10.0.0.1:80",
		"[fe80::1]:8080":  "http://[fe80::1]:8080",
		"127.0.0.1:0":     "",
		"no address here": "",
	} {
		got, err := BaseURL(listen)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("BaseURL(%q) = %q, %v; want %q", listen, got, err, want)
		}
	}
}
