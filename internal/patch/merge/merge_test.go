package merge_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/internal/patch/merge"
)

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func show(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// outcome counts what a comparison has seen.
type outcome struct{ merged, refused int }

func compare(t *testing.T, choices []byte) (o outcome) {
	t.Helper()
	g := &generator{choices: choices}
	live, patch, typ := g.scenario()
	liveBefore, patchBefore := copyTree(live), copyTree(patch)
	want, wantErr := serverApply(live, patch, typ)
	got, err := merge.Apply(live, patch, typ)

	report := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("type %s\nlive  %s\npatch %#v\n"+format, append([]any{show(typ), show(live), patch}, args...)...)
	}
	if !reflect.DeepEqual(liveBefore, any(live)) || !reflect.DeepEqual(patchBefore, any(patch)) {
		report("the input was modified")
	}
	if text(err) != text(wantErr) {
		report("got error %v\nwant      %v", err, wantErr)
	}
	if err != nil {
		return outcome{refused: 1}
	}
	if !reflect.DeepEqual(want, got) {
		report("-want +got:\n%s", cmp.Diff(want, got))
	}
	again, err := merge.Apply(got, patch, typ)
	if err != nil {
		report("the second application: %v", err)
	}
	if !reflect.DeepEqual(got, again) {
		report("the second application changes the result:\n%s", cmp.Diff(got, again))
	}
	for name, member := range live {
		if _, ok := patch[name]; !ok && !reflect.DeepEqual(member, got[name]) {
			report("%s is only in live and has changed", name)
		}
	}
	return outcome{merged: 1}
}

func TestApplyAgainstServer(t *testing.T) {
	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	var total outcome
	for range 6_000 {
		choices := make([]byte, 256)
		random.Read(choices)
		o := compare(t, choices)
		total.merged += o.merged
		total.refused += o.refused
	}
	t.Logf("%+v", total)
	if total.merged < 1000 || total.refused < 1000 {
		t.Errorf("the scenarios are one-sided: %+v", total)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("structs, maps, lists"))
	f.Fuzz(func(t *testing.T, choices []byte) { compare(t, choices) })
}
