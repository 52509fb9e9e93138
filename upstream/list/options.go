package list

import (
	"fmt"
	"strconv"

	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// defs is the beginning of all programs.
func defs(s source.Shared) string {
	text := ""
	if s.Media != "" {
		text = "def media: resolve_url(" + strconv.Quote(s.Media) + ");\n"
	}
	if s.Def != "" {
		text += s.Def + "\n"
	}
	return text
}

// Error is a mistake in the configuration of a resource.
type Error struct {
	Resource shape.Resource // empty for what is shared
	Key      string         // below the resource, or upstream: parts[0].paging.size, shared.login
	Line     int            // of a program; 0 if it is about none
	Err      error
}

func (e *Error) Error() string {
	if e.Resource == "" {
		return fmt.Sprintf("upstream %s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("upstream resource %s: %s: %v", e.Resource, e.Key, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
