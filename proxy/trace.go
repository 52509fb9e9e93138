package proxy

import "bytes"

// traceParentLength is that of a traceparent of version 00: version, trace-id, parent-id and flags.
const traceParentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// validTraceParent reports whether a traceparent can be passed on (W3C Trace Context, section 3.2.2). One of a version
// that is not known yet is passed on if its beginning is as that of version 00.
func validTraceParent(v []byte) bool {
	switch {
	case len(v) < traceParentLength, v[2] != '-', v[35] != '-', v[52] != '-',
		!lowerHex(v[:2]), !lowerHex(v[3:35]), !lowerHex(v[36:52]), !lowerHex(v[53:55]),
		string(v[:2]) == "ff", allZero(v[3:35]), allZero(v[36:52]):
		return false
	case len(v) == traceParentLength:
		return true
	}
	return string(v[:2]) != "00" && v[traceParentLength] == '-' && visible(v)
}

// traceID is the trace-id of a valid traceparent.
func traceID(parent []byte) []byte { return parent[3:35] }

// What a tracestate may have (section 3.3.1).
const (
	maxTraceMembers = 32
	maxTraceKey     = 256
	maxTraceValue   = 256
)

// validTraceState reports whether a tracestate can be passed on. One that cannot is left out whole, as section 3.3.1
// wants: a list with members taken out would say something else.
func validTraceState(v []byte) bool {
	members := 0
	for more := true; more; {
		var member []byte
		more = bytes.IndexByte(v, ',') >= 0
		member, v = cut(v, ',')
		if member = trimBlanks(member); len(member) == 0 {
			continue
		}
		i := bytes.IndexByte(member, '=')
		if members++; members > maxTraceMembers || i < 0 || !traceKey(member[:i]) || !traceValue(member[i+1:]) {
			return false
		}
	}
	return members > 0
}

func traceKey(key []byte) bool {
	if len(key) == 0 || len(key) > maxTraceKey || key[0] == '@' {
		return false
	}
	for _, c := range key {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '_', c == '-', c == '*', c == '/', c == '@':
		default:
			return false
		}
	}
	return true
}

func traceValue(value []byte) bool {
	if len(value) == 0 || len(value) > maxTraceValue {
		return false
	}
	for _, c := range value {
		if c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}

func lowerHex(s []byte) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func allZero(s []byte) bool {
	for _, c := range s {
		if c != '0' {
			return false
		}
	}
	return true
}

// visible reports whether s is of visible ASCII characters alone.
func visible(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
