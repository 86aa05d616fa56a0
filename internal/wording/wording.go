// Package wording reads the sentences of others: what cel-go says of expressions, and what an API server says of
// requests, where no type says it. Nothing else in celgate recognises such a sentence. The tests ask cel-go, and the
// recorded answers of servers, for each of them, so that a release with other words does not go unnoticed.
package wording

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Problem is one of those that the compiler lists in its message about an expression.
type Problem struct {
	Line, Column int // from 1; columns count code points
	Message      string
}

var problem = regexp.MustCompile(`ERROR: <input>:(\d+):(\d+): ([^\n]*)`)

// Problems returns the problems in the message of a compiler; none if it is not of a compiler.
func Problems(message string) []Problem {
	var all []Problem
	for _, m := range problem.FindAllStringSubmatch(message, -1) {
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

// Detail returns the problem as the only one of a compiler's message.
func (p Problem) Detail() string {
	return fmt.Sprintf("ERROR: <input>:%d:%d: %s", p.Line, p.Column, p.Message)
}

// TrimContainer removes what the compiler adds to names that it does not know: no policy has a container.
func TrimContainer(message string) string { return strings.TrimSuffix(message, " (in container '')") }

// A Kind tells the sentences about expressions apart.
type Kind int

// The kinds of sentences.
const (
	Other           Kind = iota
	TypeConversion       // of a value that the type does not take
	NoSuchOverload       // at run time: Name is not known
	OutOfBounds          // an index
	DivisionByZero       //
	Undeclared           // the compiler does not know Name
	UndefinedField       // the type has no field Name
	NoOverload           // Name does not take arguments of the types Got
	WrongResult          // the expression must be Want and is Got
	MixedTypes           // in a list or a map
	SingleOperator       // Name instead of Name twice, as in a = b
	WordForOperator      // Name, as in a and b
)

// A Sentence is what is said of an expression.
type Sentence struct {
	Kind      Kind
	Name      string
	Want, Got string
}

// Is reports whether the sentence is about the same; members of about that are empty may have any value.
func (s Sentence) Is(about Sentence) bool {
	return s.Kind == about.Kind && (about.Name == "" || s.Name == about.Name) &&
		(about.Want == "" || s.Want == about.Want) && (about.Got == "" || s.Got == about.Got)
}

var sentences = []struct {
	kind    Kind
	pattern *regexp.Regexp // its groups are named after the fields
}{
	{TypeConversion, regexp.MustCompile(`type conversion error`)},
	{NoSuchOverload, regexp.MustCompile(`no such overload`)},
	{OutOfBounds, regexp.MustCompile(`index out of bounds|index '`)},
	{DivisionByZero, regexp.MustCompile(`division by zero`)},
	{Undeclared, regexp.MustCompile(`undeclared reference to '(?P<name>[\w.]+)'`)},
	{UndefinedField, regexp.MustCompile(`undefined field '(?P<name>[^'\n]*)'`)},
	{NoOverload, regexp.MustCompile(`found no matching overload for '(?P<name>[^']*)' applied to '(?P<got>[^\n]*)'`)},
	// The server's, of its pkg/admission/plugin/cel/compile.go v0.37.2.
	{WrongResult, regexp.MustCompile(`must evaluate to (?P<want>one of \[[^\]]*\]|\S+) but got (?P<got>\S+)`)},
	{MixedTypes, regexp.MustCompile(`expected type '.*' but found '`)},
	{SingleOperator, regexp.MustCompile(`token recognition error at: '(?P<name>[=&|])`)},
	{WordForOperator, regexp.MustCompile(
		`(?:extraneous|mismatched) input '(?P<name>and|or|not|is|AND|OR|NOT)'`)},
}

// Read returns the first sentence that is known of those in a message, in the order of their kinds.
func Read(message string) Sentence {
	for _, s := range sentences {
		m := s.pattern.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := s.pattern.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		return Sentence{Kind: s.kind, Name: group("name"), Want: group("want"), Got: group("got")}
	}
	return Sentence{}
}

var denial = regexp.MustCompile(`\b\w*[pP]olicy\w* ['"]([^'"]+)['"](?: with binding ['"][^'"]*['"])? denied request`)

// Denier returns the name of the policy that a server's answer to a request names as the one that refused it, as in
// "ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: …"; "" if it names none. The webhook of
// celgate answers with the same words. As validating/dispatcher.go and mutating/errors.go v0.37.2 have it.
func Denier(message string) string {
	if m := denial.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

var wrongBoolean = regexp.MustCompile(`cannot unmarshal bool into Go struct field \w+\.(\S+) of type`)

// WrongBoolean returns the path of the field that an answer to a request says to have a boolean in the place of another
// value (encoding/json's words); of a map the path of the map alone; "" if the answer is about something else.
func WrongBoolean(message string) string {
	if m := wrongBoolean.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
