// Package wording parses texts of others: messages of cel-go about expressions, and of an API server about requests, if
// no type carries the same information. Other packages do not recognise such texts. The tests get each text from cel-go
// and from recorded answers of servers, so a release with other texts is noticed.
package wording

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
)

// A Problem is a single problem in a message of the compiler about an expression.
type Problem struct {
	Line, Column int // from 1; columns count code points
	Message      string
}

var problem = pattern.New(`ERROR: <input>:(\d+):(\d+): ([^\n]*)`)

// Problems returns the problems in a message of the compiler; none for other messages.
func Problems(message string) []Problem {
	var all []Problem
	for _, m := range problem().FindAllStringSubmatch(message, -1) {
		p := Problem{Message: TrimContainer(m[3])}
		var err error
		if p.Line, err = strconv.Atoi(m[1]); err != nil {
			continue
		}
		if p.Column, err = strconv.Atoi(m[2]); err != nil {
			continue
		}
		all = append(all, p)
	}
	return all
}

// Detail returns the message of a compiler for this problem alone.
func (p Problem) Detail() string {
	return fmt.Sprintf("ERROR: <input>:%d:%d: %s", p.Line, p.Column, p.Message)
}

// TrimContainer removes the container that the compiler adds to unknown names: policies do not have a container.
func TrimContainer(message string) string { return strings.TrimSuffix(message, " (in container '')") }

// A Kind is a kind of sentence about expressions.
type Kind int

// The kinds of sentences.
const (
	Other           Kind = iota
	TypeConversion       // of a value that the type does not accept
	NoSuchOverload       // at run time: Name is not known
	OutOfBounds          // an index
	DivisionByZero       //
	Undeclared           // at compile time: Name is not known
	UndefinedField       // the type has no field Name
	NoOverload           // Name does not accept arguments of the types Got
	WrongResult          // the expression must be Want and is Got
	MixedTypes           // in a list or a map
	SingleOperator       // Name instead of Name twice, as in a = b
	WordForOperator      // Name, as in a and b
)

// A Sentence is a parsed message about an expression.
type Sentence struct {
	Kind      Kind
	Name      string
	Want, Got string
}

// Is reports whether the sentences have the same subject; empty members of about match any value.
func (s Sentence) Is(about Sentence) bool {
	return s.Kind == about.Kind && (about.Name == "" || s.Name == about.Name) &&
		(about.Want == "" || s.Want == about.Want) && (about.Got == "" || s.Got == about.Got)
}

var sentences = []struct {
	kind    Kind
	pattern pattern.Regexp // its groups are named after the fields
}{
	{TypeConversion, pattern.New(`type conversion error`)},
	{NoSuchOverload, pattern.New(`no such overload`)},
	{OutOfBounds, pattern.New(`index out of bounds|index '`)},
	{DivisionByZero, pattern.New(`division by zero`)},
	{Undeclared, pattern.New(`undeclared reference to '(?P<name>[\w.]+)'`)},
	{UndefinedField, pattern.New(`undefined field '(?P<name>[^'\n]*)'`)},
	{NoOverload, pattern.New(`found no matching overload for '(?P<name>[^']*)' applied to '(?P<got>[^\n]*)'`)},
	// This message is the server's, from its pkg/admission/plugin/cel/compile.go v0.37.2.
	{WrongResult, pattern.New(`must evaluate to (?P<want>one of \[[^\]]*\]|\S+) but got (?P<got>\S+)`)},
	{MixedTypes, pattern.New(`expected type '.*' but found '`)},
	{SingleOperator, pattern.New(`token recognition error at: '(?P<name>[=&|])`)},
	{WordForOperator, pattern.New(
		`(?:extraneous|mismatched) input '(?P<name>and|or|not|is|AND|OR|NOT)'`)},
}

// Read returns the first known sentence in a message, in the order of their kinds.
func Read(message string) Sentence {
	for _, s := range sentences {
		m := s.pattern().FindStringSubmatch(message)
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := s.pattern().SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		return Sentence{Kind: s.kind, Name: group("name"), Want: group("want"), Got: group("got")}
	}
	return Sentence{}
}

var denial = pattern.New(`\b\w*[pP]olicy\w* ['"]([^'"]+)['"](?: with binding ['"][^'"]*['"])? denied request`)

// Denier returns the name of the policy that refused a request, according to the answer of a server, as in
// "ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: …"; "" if the answer does not name one. The
// webhook of celgate uses the same texts. As validating/dispatcher.go and mutating/errors.go v0.37.2.
func Denier(message string) string {
	if m := denial().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

var wrongBoolean = pattern.New(`cannot unmarshal bool into Go struct field \w+\.(\S+) of type`)

// WrongBoolean returns the path of the field that has a boolean instead of another value, according to an answer to a
// request (the text is encoding/json's); for a map the path of the map alone; "" for other answers.
func WrongBoolean(message string) string {
	if m := wrongBoolean().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
