package shape

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// The kinds of fields. Those without a comparison do not occur in a type that is ordered.
var (
	// id is a required integer.
	id = kind[int64]{
		Field:   Field{Type: "integer"},
		read:    (*decoder).readID,
		append:  appendInt,
		compare: cmp.Compare[int64],
	}
	// integer is an integer that the CMS may leave out, which is counted.
	integer = kind[*int64]{
		Field:  Field{Type: "integer", Null: true},
		read:   (*decoder).readInteger,
		append: appendIntOrNull,
	}
	// nullable is an integer for which null is documented too.
	nullable = kind[*int64]{
		Field:  Field{Type: "integer", Null: true},
		read:   (*decoder).readNullable,
		append: appendIntOrNull,
	}
	text = kind[string]{
		Field:   Field{Type: "text"},
		read:    (*decoder).readText,
		append:  appendString,
		compare: cmp.Compare[string],
	}
	boolean = kind[bool]{
		Field:   Field{Type: "boolean"},
		read:    (*decoder).readBool,
		append:  strconv.AppendBool,
		compare: compareBool,
	}
	timestamp = kind[Timestamp]{
		Field:   Field{Type: "timestamp"},
		read:    (*decoder).readTimestamp,
		append:  appendTimestamp,
		compare: cmp.Compare[Timestamp],
	}
	tags = kind[[]string]{
		Field:  Field{Type: "text", List: true},
		read:   (*decoder).readTags,
		append: appendTags,
	}
	// asIs has no documented type: any JSON value, passed through as sent.
	asIs = kind[json.RawMessage]{
		Field:  Field{Type: "any"},
		read:   (*decoder).readAsIs,
		append: appendAsIs,
	}
	// listAsIs is a list of values of no documented type.
	listAsIs = kind[json.RawMessage]{
		Field:  Field{Type: "any", List: true},
		read:   (*decoder).readListAsIs,
		append: appendAsIs,
	}
)

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
