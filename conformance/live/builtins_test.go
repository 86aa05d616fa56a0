package live

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	engine "github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/conformance/spoil"
	"github.com/celgate/celgate/schema/builtin"
)

var (
	spoiledCount = flag.Int("spoiled", 300, "objects of built-in kinds with a spoiled field")
	spoiledSeed  = flag.Uint64("spoiled-seed", 1, "of those objects")
	spoiledKeep  = flag.Bool("spoiled-record", false, "write the shares to conformance/spoil/totals.json")
	spoiledMinor = flag.String("spoiled-minor", engine.Newest, "whose server TestBuiltins asks")
)

// TestBuiltins compares the built-in objects that the server and celgate refuse to store: valid objects with one
// changed field or two. Other refusals of the server, because it cannot decode the object or a plugin forbids it, are not
// counted.
func TestBuiltins(t *testing.T) {
	types, err := builtin.Registry(*spoiledMinor)
	if err != nil {
		t.Fatal(err)
	}
	api := api
	if *spoiledMinor != engine.Newest {
		if api, err = server.Start(t.Context(), server.Options{Minor: *spoiledMinor}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := api.Stop(); err != nil {
				t.Error(err)
			}
		}()
	}
	valid, err := spoil.Objects()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(*spoiledSeed, 0))
	type asked struct {
		object     map[string]any
		what, want string
	}
	var all []asked
	for i := range *spoiledCount {
		object := valid[i%len(valid)]
		kind := apischema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string))
		res := types.ResourceFor(kind)
		if res.Resource == "" {
			continue // the minor does not serve it
		}
		spoiled, what := spoil.Spoil(r, object, types.Type(kind))
		if r.IntN(3) == 0 { // some rules concern two fields
			var more string
			spoiled, more = spoil.Spoil(r, spoiled, types.Type(kind))
			what += ", " + more
		}
		path := "/apis/" + res.Group + "/" + res.Version
		if res.Group == "" {
			path = "/api/" + res.Version
		}
		if res.Namespaced {
			path += "/namespaces/default"
		}
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodPost, Path: path + "/" + res.Resource,
			Body:  spoiled,
			Query: map[string][]string{"dryRun": {"All"}}})
		if err != nil {
			t.Fatal(err)
		}
		a := asked{object: spoiled, what: what}
		switch status := answer.Status(); {
		case status == nil:
		case status.Code == http.StatusUnprocessableEntity:
			a.want = status.Message
		default:
			continue
		}
		if metadata, _ := spoiled["metadata"].(map[string]any); metadata["name"] == nil || metadata["name"] == "" {
			continue // which celgate does not take for a manifest
		}
		all = append(all, a)
	}
	var manifests []string
	for _, a := range all {
		text, err := json.Marshal(a.object)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(text))
	}
	folder := t.TempDir()
	write(t, folder+"/policy.yaml", anything)
	result := celgate(t, strings.Join(manifests, "\n---\n"), "apply", "-p", folder+"/policy.yaml", "-o", "json",
		"--kube-version", *spoiledMinor, "--no-workloads", "-")
	var list struct{ Items []decision }
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil || len(list.Items) != len(all) {
		t.Fatalf("%v: %d answers to %d\n%s", err, len(list.Items), len(all), result.stderr)
	}
	shares := map[string]*spoil.Share{}
	for i, a := range all {
		kind := a.object["kind"].(string)
		if shares[kind] == nil {
			shares[kind] = &spoil.Share{Kind: kind}
		}
		of := shares[kind]
		of.Asked++
		if a.want != "" {
			of.Refused++
		}
		switch got := list.Items[i].Response.Status.Message; {
		case got == "":
			if a.want != "" {
				t.Logf("missed: %s with %s\n%.400s", kind, a.what, a.want)
			}
		case a.want == "":
			of.False++
			t.Errorf("%s with %s is refused, which the server takes:\n%s", kind, a.what, got)
		case sameSentences(got, a.want):
			of.Same++
		default:
			of.Worded++
			t.Logf("worded otherwise: %s with %s\nserver:  %.600s\ncelgate: %.600s", kind, a.what, a.want, got)
		}
	}
	record := spoil.Record{Seed: *spoiledSeed}
	for _, kind := range slices.Sorted(maps.Keys(shares)) {
		record.Shares = append(record.Shares, *shares[kind])
	}
	total := record.Total()
	t.Logf("%d asked, %d refused, %d of them by celgate in the same words, %d in others, %d missed", total.Asked,
		total.Refused,
		total.Same, total.Worded, total.Misses())
	if total.Percent() < 95 {
		t.Errorf("only %.1f %% of what the server refuses is refused", total.Percent())
	}
	if *spoiledKeep && *spoiledMinor == engine.Newest {
		text, err := json.MarshalIndent(record, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../spoil/totals.json", append(text, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
