// Command celanswers evaluates expressions with the CEL libraries of one Kubernetes minor, and writes the results into
// the file with those of the other minors:
//
//	go run ./celanswers
//	GOFLAGS=-modfile=1.33.mod go run ./celanswers
//
// An expression is compiled and evaluated as a server of the minor does it in an admission policy: with the cel-go that
// k8s.io/apiserver requires, in the environment for stored expressions. Errors of the environment for new expressions
// are recorded, too. Answers that several minors share are written once.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// An expression holds the answers of all recorded minors.
type expression struct {
	Expression string   `json:"expression"`
	Answers    []answer `json:"answers,omitempty"`
}

// An answer is the common result of some minors.
type answer struct {
	Minors  []string `json:"minors"`
	Refused string   `json:"refused,omitempty"` // by the compiler
	Unknown string   `json:"unknown,omitempty"` // for new expressions: the error of the compiler
	Value   string   `json:"value,omitempty"`
	Error   string   `json:"error,omitempty"`
	Cost    uint64   `json:"cost,omitempty"`
}

func main() {
	file := flag.String("file", "../internal/celenv/testdata/older.json", "with the expressions")
	flag.Parse()
	if err := run(*file); err != nil {
		fmt.Fprintln(os.Stderr, "celanswers:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	minor, err := linkedMinor()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all []expression
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	stored, fresh, err := environments(minor)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].replace(minor, ask(stored, fresh, all[i].Expression))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// linkedMinor is the minor of the k8s.io/apiserver that is linked into this program, such as "1.33".
func linkedMinor() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/apiserver" {
				return "1." + strings.Split(m.Version, ".")[1], nil
			}
		}
	}
	return "", fmt.Errorf("the version of k8s.io/apiserver is not known")
}

// environments returns those that a server of the minor has for stored and for new expressions.
func environments(minor string) (stored, fresh *cel.Env, err error) {
	number, err := strconv.ParseUint(minor[len("1."):], 10, 16)
	if err != nil {
		return nil, nil, err
	}
	// Up to 1.35 the function has a second argument: whether costs of libraries are counted in admission policies,
	// which is true from 1.32 on.
	base := reflect.ValueOf(environment.MustBaseEnvSet)
	args := []reflect.Value{reflect.ValueOf(version.MajorMinor(1, uint(number-1))), reflect.ValueOf(number >= 32)}
	set := base.Call(args[:base.Type().NumIn()])[0].Interface().(*environment.EnvSet)
	set, err = set.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType)},
	})
	if err != nil {
		return nil, nil, err
	}
	return set.StoredExpressionsEnv(), set.NewExpressionsEnv(), nil
}

// ask compiles an expression and evaluates it on the object of the tests.
func ask(stored, fresh *cel.Env, src string) (a answer) {
	checked, issues := stored.Compile(src)
	if issues.Err() != nil {
		return answer{Refused: issues.String()}
	}
	if _, issues := fresh.Compile(src); issues.Err() != nil {
		a.Unknown = issues.String()
	}
	program, err := stored.Program(checked, cel.InterruptCheckFrequency(100))
	if err != nil {
		a.Error = "program: " + err.Error()
		return a
	}
	value, details, err := program.ContextEval(context.Background(), map[string]any{
		"object": types.DefaultTypeAdapter.NativeToValue(map[string]any{
			"metadata": map[string]any{"name": "a"},
			"data":     map[string]any{"q": "100000000000000000000.5", "long": strings.Repeat("x", 95)},
		}),
	})
	if details.ActualCost() != nil {
		a.Cost = *details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
	} else {
		a.Value = fmt.Sprint(value.Value())
	}
	return a
}

// replace replaces the earlier answer of a minor.
func (e *expression) replace(minor string, now answer) {
	for i := range e.Answers {
		e.Answers[i].Minors = slices.DeleteFunc(e.Answers[i].Minors, func(m string) bool { return m == minor })
	}
	e.Answers = slices.DeleteFunc(e.Answers, func(a answer) bool { return len(a.Minors) == 0 })
	for i, a := range e.Answers {
		if a.Minors = nil; reflect.DeepEqual(a, now) {
			e.Answers[i].Minors = append(e.Answers[i].Minors, minor)
			slices.Sort(e.Answers[i].Minors)
			return
		}
	}
	now.Minors = []string{minor}
	e.Answers = append(e.Answers, now)
	slices.SortFunc(e.Answers, func(a, b answer) int { return strings.Compare(a.Minors[0], b.Minors[0]) })
}
