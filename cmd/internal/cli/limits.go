package cli

import (
	"errors"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// limitFlag adds the flag that bounds the memory of one evaluation.
func (c *console) limitFlag(f *pflag.FlagSet) {
	f.Var((*memory)(&c.limits.Memory), "limit-memory",
		"`BYTES` memory for the values of one policy while it is\nevaluated, such as 256Mi; a policy that needs more fails\n(default 1Gi)")
	c.inputFlag(f)
}

// inputFlag adds the flag that bounds what is read in all.
func (c *console) inputFlag(f *pflag.FlagSet) {
	f.Var((*memory)(&c.maxInput), "max-input",
		"`BYTES` how much to read of all files and standard input\n(default 256Mi)")
}

// memory is an amount of bytes as a flag.
type memory int64

var errNoMemory = errors.New("it is an amount of memory such as 256Mi")

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

// Type is a placeholder, which the help replaces.
func (m *memory) Type() string { return "bytes" }
