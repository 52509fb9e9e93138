package config

import "go.yaml.in/yaml/v3"

// layer is a source of values, in rising order of precedence.
type layer int

const (
	fromDefault layer = iota
	fromFile
	fromEnvironment
	fromFlag
)

// origin is the origin of a value.
type origin struct {
	name  string // of the setting there: VITRINE_TTL, --ttl, ttl
	file  string // and line, vitrine.yaml:12, if it came from one
	layer layer
}

// String describes the origin: "environment VITRINE_TTL".
func (o origin) String() string {
	switch o.layer {
	case fromEnvironment, fromFlag:
		return o.place() + " " + o.name
	default:
		return o.place()
	}
}

// place is the part of an error in parentheses.
func (o origin) place() string {
	switch o.layer {
	case fromFile:
		return o.file
	case fromEnvironment:
		return "environment"
	case fromFlag:
		return "flag"
	default:
		return "default"
	}
}

// given is a value as text, before it is parsed, and its origin.
type given struct {
	origin
	text  string
	found string     // what to show in an error if text is not as written
	node  *yaml.Node // of parts
}

// values are the texts of all settings, by key.
type values map[string]given
