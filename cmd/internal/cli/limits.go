package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celgate/celgate/policy"
)

// limitFlag adds the flag that bounds the memory of one evaluation.
func (c *console) limitFlag(f *pflag.FlagSet) {
	f.Var((*memory)(&c.limits.Memory), "limit-memory",
		"`BYTES` memory for the values of one policy while it is\nevaluated, such as 256Mi; a policy that needs more fails\n(default 1Gi)")
	c.inputFlag(f)
}

// inputFlag adds the flag that bounds the input.
func (c *console) inputFlag(f *pflag.FlagSet) {
	f.Var((*memory)(&c.maxInput), "max-input",
		"`BYTES` how much to read of all files and standard input\n(default 256Mi)")
}

// memory is the flag of an amount of bytes.
type memory int64

var errNoMemory = errors.New("must be an amount of memory such as 256Mi")

// Set parses bytes as Kubernetes writes them.
func (m *memory) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return errNoMemory
	}
	n, exact := q.AsInt64()
	if !exact || n <= 0 {
		return errNoMemory
	}
	*m = memory(n)
	return nil
}

func (m *memory) String() string {
	if *m == 0 {
		return ""
	}
	return resource.NewQuantity(int64(*m), resource.BinarySI).String()
}

// Type returns a placeholder that the help replaces.
func (m *memory) Type() string { return "bytes" }

// sizes is the flag of limits of policies.
type sizes struct {
	of   *policy.Limits
	cost *int64 // of a request; nil: the flag does not have it
	text []string
}

// Set parses one or more limits: NAME=NUMBER,...
func (s *sizes) Set(text string) error {
	for each := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(each), "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is not NAME=NUMBER, with a number above 0", each)
		}
		size := map[string]*int{"bindings-per-policy": &s.of.Bindings, "rules": &s.of.Rules,
			"validations": &s.of.Validations, "mutations": &s.of.Mutations}[name]
		switch {
		case size != nil && n <= 1<<31-1:
			*size = int(n)
		case size != nil:
			return fmt.Errorf("%d is too large a number of %s", n, name)
		case name == "cost-per-request" && s.cost != nil:
			*s.cost = n
		default:
			return fmt.Errorf("unknown limit %q: the limits are %s", name, strings.Join(s.names(), ", "))
		}
		s.text = append(s.text, name+"="+number)
	}
	return nil
}

func (s *sizes) names() []string {
	names := []string{"bindings-per-policy", "rules", "validations", "mutations"}
	if s.cost != nil {
		names = append(names, "cost-per-request")
	}
	return names
}

func (s *sizes) String() string { return strings.Join(s.text, ",") }

// Type returns a placeholder that the help replaces.
func (s *sizes) Type() string { return "limits" }
