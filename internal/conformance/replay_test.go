package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// known holds the cases in which the engine differs from the server, and why. A case that agrees again must leave.
var known = map[string]string{}

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
			diff := Compare(c.Want, got)
			switch why := known[c.Name]; {
			case why != "" && diff == "":
				t.Errorf("agrees now, but is known to differ: %s", why)
			case why != "":
				t.Skip(why)
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
