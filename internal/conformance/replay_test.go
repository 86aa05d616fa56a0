package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unvalidated holds the cases in which the registry of the server refuses an object that the engine, which does not
// validate objects, allows, and for what. A case that agrees must leave.
var unvalidated = map[string]string{
	"proposals/mutating-ingress-class-verbatim-name": "the name of an ingress class, after a mutation",
	"proposals/mutating-nested-verbatim":             "a mount without a volume",
	"proposals/mutating-storage-class-verbatim-name": "the name of a storage class, after a mutation",
	"reports/csr-username":                           "the PEM block of a certificate request",
	"reports/map-pod-spec-on-update":                 "a field of a Pod that may not change, after a mutation",
}

// registered holds the cases in which the registry refuses an object as the engine does. A webhook leaves that to its
// server.
var registered = map[string]string{
	"reports/crd-map-breaks-enum":      "an enum of a custom schema, after a mutation",
	"reports/crd-missing-required":     "a required field of a custom schema",
	"reports/crd-wrong-type":           "a type of a custom schema",
	"reports/map-makes-object-invalid": "the value of a label, after a mutation",
}

// unexpected returns what a test is to say of how an answer differs from the recorded one, "" for nothing.
func unexpected(c *Case, got *Want, diff, what string) string {
	switch {
	case what == "":
		return diff
	case diff == "":
		return "agrees now, but is known to be refused by the server only: " + what
	case c.Want.Status == nil || c.Want.Status.Reason != metav1.StatusReasonInvalid || got.Allowed == nil ||
		!*got.Allowed:
		return "differs in more than the validation of " + what + ":\n" + diff
	}
	return ""
}

var short = flag.Bool("names", false, "print only the names of the cases that differ")

// TestReplay answers every case with the engine and compares with what the server said.
func TestReplay(t *testing.T) {
	cases, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if c.Want == nil {
				t.Fatal("not recorded")
			}
			got, err := Replay(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			diff := unexpected(c, got, Compare(c.Want, got), unvalidated[c.Name])
			switch {
			case diff != "" && *short:
				t.Fail()
			case diff != "":
				t.Errorf("%s\n- recorded + engine\n%s", c.Idea, diff)
			}
		})
	}
}

// TestCorpus checks the corpus itself.
func TestCorpus(t *testing.T) {
	cases, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range Check(cases) {
		t.Error(problem)
	}
	for _, c := range cases {
		content, err := c.Format(c.Want)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		file, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(c.Name)+".txtar"))
		if err != nil || string(content) != string(file) {
			t.Errorf("%s: not written by the recorder (%v)", c.Name, err)
		}
	}
}
