package conformance

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/wording"
)

// TestWording reads the recorded answers of servers, so that a release with other words does not go unnoticed.
func TestWording(t *testing.T) {
	cases := corpus(t)
	denials, results, booleans := 0, 0, 0
	for _, c := range cases {
		if c.Want == nil {
			continue
		}
		for _, want := range append(c.Want.Others, c.Want) {
			if s := want.Status; s != nil && strings.Contains(s.Message, " denied request: ") {
				denials++
				if wording.Denier(s.Message) == "" {
					t.Errorf("%s: no policy is found in %q", c.Name, s.Message)
				}
			}
			if s := want.Status; s != nil && strings.Contains(s.Message, "unmarshal bool") {
				booleans++
				if wording.WrongBoolean(s.Message) == "" {
					t.Errorf("%s: no field is found in %q", c.Name, s.Message)
				}
			}
			for _, r := range want.Rejected {
				for said := range strings.Lines(r.Status.Message) {
					_, said, found := strings.Cut(said, "must evaluate to ")
					if !found {
						continue
					}
					results++
					if got := wording.Read("must evaluate to " + said); got.Kind != wording.WrongResult || got.Got == "" {
						t.Errorf("%s: no types are found in %q", c.Name, said)
					}
				}
				if strings.Contains(r.Status.Message, "ERROR: <input>:1:") &&
					len(wording.Problems(r.Status.Message)) == 0 {
					t.Errorf("%s: no problem is found in %q", c.Name, r.Status.Message)
				}
			}
		}
	}
	if denials == 0 || results == 0 || booleans == 0 {
		t.Errorf("%d denials, %d results of another type and %d booleans were read", denials, results, booleans)
	}
}
