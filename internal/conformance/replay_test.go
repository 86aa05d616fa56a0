package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate"
)

// unvalidated lists the cases in which the registry of the server refuses an object that the engine admits, or refuses
// it with fewer words, and the reason. A case that agrees must be removed.
var unvalidated = map[string]string{
	"reports/csr-username":           "the PEM block of a certificate request",
	"reports/map-pod-spec-on-update": "a field of a Pod that may not change, after a mutation",
}

// registered lists the cases in which the registry refuses an object as the engine does. A webhook leaves that to its
// server.
var registered = map[string]string{
	"reports/crd-map-breaks-enum":                    "an enum of a custom schema, after a mutation",
	"reports/crd-missing-required":                   "a required field of a custom schema",
	"reports/crd-wrong-type":                         "a type of a custom schema",
	"reports/map-makes-object-invalid":               "the value of a label, after a mutation",
	"proposals/mutating-ingress-class-verbatim-name": "the name of an ingress class, after a mutation",
	"proposals/mutating-nested-verbatim":             "a mount without a volume",
	"proposals/mutating-storage-class-verbatim-name": "the name of a storage class, after a mutation",
}

// describeUnexpected returns the test message for a difference between an answer and the recorded one, "" for none.
func describeUnexpected(c *Case, got *Want, diff, what string) string {
	switch {
	case what == "":
		return diff
	case diff == "":
		return "agrees now, but is known to be refused by the server only: " + what
	case c.Want.Status == nil || c.Want.Status.Reason != metav1.StatusReasonInvalid || got.Allowed == nil ||
		!*got.Allowed && (got.Status == nil || got.Status.Reason != metav1.StatusReasonInvalid):
		return "differs in more than the validation of " + what + ":\n" + diff
	}
	return ""
}

var short = flag.Bool("names", false, "print only the names of the cases that differ")

// TestReplay replays every case with one engine in three ways, and compares the answers with the server's: directly,
// with events, and over HTTP.
func TestReplay(t *testing.T) {
	cases := corpus(t)
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	var ran, told atomic.Int64
	t.Cleanup(func() {
		if ran.Load() == int64(len(cases)) && told.Load() == 0 { // not if -run chooses some
			t.Error("no mutation was told")
		}
	})
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ran.Add(1)
			if c.Want == nil {
				t.Fatal("not recorded")
			}
			w, err := worldOf(c, celgate.Newest)
			if err != nil {
				t.Fatal(err)
			}
			got := &Want{}
			var engine *celgate.Engine
			if engine, got.Rejected, err = w.Engine(c.Policies, c.Stored...); err != nil {
				t.Fatal(err)
			}
			rejected := got.Rejected
			if c.Request != nil {
				if _, err := w.Answer(t.Context(), engine, c, got); err != nil {
					t.Fatal(err)
				}
			}
			report(t, c, "engine", describeUnexpected(c, got, Compare(c.Want, got), unvalidated[c.Name]))
			if c.Request == nil {
				return
			}
			told.Add(compareTraced(t, c, w, engine))
			if c.Area() != "writes" && !c.HasPlugins() { // webhooks are not called for policies
				compareWebhook(t, c, w, engine, rejected)
			}
		})
	}
}

// report fails for a difference between the recorded answer and another one.
func report(t *testing.T, c *Case, of, diff string) {
	t.Helper()
	switch {
	case diff != "" && *short:
		t.Fail()
	case diff != "":
		t.Errorf("%s\n- recorded + %s\n%s", c.Idea, of, diff)
	}
}

// TestCorpus checks the corpus itself.
func TestCorpus(t *testing.T) {
	cases := corpus(t)
	for _, problem := range Check(cases) {
		t.Error(problem)
	}
	for _, c := range cases {
		content, err := c.Format()
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
