package sanitize

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// shortest is the length of a secret that is masked: a shorter one is in every text.
const shortest = 4

const masked = "********"

// Mask replaces each secret, as it is, in JSON and in a URL; of a value of Authorization also what
// follows the scheme. So it does where an ellipsis of ours or of jq cuts one off.
func Mask(text string, secrets ...string) string {
	all := forms(secrets)
	for _, form := range all {
		text = strings.ReplaceAll(text, form, masked)
	}
	for _, form := range all {
		for _, cut := range []string{"…", " ..."} {
			for n := len(form) - 1; n >= shortest && strings.Contains(text, cut); n-- {
				text = strings.ReplaceAll(text, form[:n]+cut, masked+cut)
			}
		}
	}
	return text
}

func forms(secrets []string) (all []string) {
	for _, secret := range secrets {
		_, token, _ := strings.Cut(secret, " ")
		for _, one := range []string{secret, token} {
			quoted, _ := json.Marshal(one)
			all = append(all, one, url.QueryEscape(one), url.PathEscape(one), strings.Trim(string(quoted), `"`))
		}
	}
	all = slices.DeleteFunc(all, func(form string) bool { return len(form) < shortest })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}
