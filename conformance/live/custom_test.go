package live

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	core "github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/conformance/custom"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

var customCount = flag.Int("custom", 300, "requests for objects of generated CustomResourceDefinitions")

const (
	customGroup = "generated.example.com"
	perKind     = 10 // requests for objects of a definition
)

// A defined is a generated definition on the server, and what is stored of its kind: the objects were stored before the
// definition had constraints, so that they may break them.
type defined struct {
	*custom.Definition
	random  *custom.Generator
	stored  []map[string]any
	refusal string // why the definition is left out
}

// TestCustomRequests compares answers to requests for objects of generated CustomResourceDefinitions: new objects,
// updates of stored ones, which may break the schema, and updates of their status.
func TestCustomRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(*spoiledSeed, 7))
	kinds := *customCount / perKind
	tried := make([]*defined, 2*kinds)
	for i := range tried {
		g := &custom.Generator{Rand: rand.New(rand.NewPCG(*spoiledSeed, r.Uint64()))}
		d := g.NewDefinition(customGroup, fmt.Sprintf("Made%d", i), fmt.Sprintf("made%ds", i))
		for name, rule := range map[string]map[string]any{"spec": d.Schema, "": d.Lax} {
			// Shows that the constraints are in force.
			property := map[string]any{"type": "string"}
			if name != "" {
				property["maxLength"] = int64(1)
			}
			rule["properties"].(map[string]any)["sentinel"] = property
		}
		tried[i] = &defined{Definition: d, random: g}
	}
	if err := corpus.Each(len(tried), func(i int) error { return tried[i].define(t) }); err != nil {
		t.Fatal(err)
	}
	refusals := map[string]int{}
	taken := slices.DeleteFunc(tried, func(d *defined) bool {
		if d.refusal != "" {
			refusals[d.refusal]++
		}
		return d.refusal != ""
	})
	t.Logf("%d definitions; the server refuses: %v", len(taken), refusals)
	if len(taken) < kinds {
		t.Fatalf("%d definitions, not %d", len(taken), kinds)
	}
	taken = taken[:kinds]

	types, err := builtin.Registry(core.Newest)
	if err != nil {
		t.Fatal(err)
	}
	var definitions, existing []map[string]any
	for _, d := range taken {
		definitions, existing = append(definitions, d.Object(d.Schema)), append(existing, d.stored...)
	}
	world := &conformance.World{Minor: core.Newest}
	if world.Types, err = types.WithCustomResources(definitions...); err != nil {
		t.Fatal(err)
	}
	if world.Cluster, err = state.New(world.Types, existing...); err != nil {
		t.Fatal(err)
	}
	engine, _, err := world.Engine(nil)
	if err != nil {
		t.Fatal(err)
	}
	counts, refused := map[string]int{}, map[string]int{}
	for _, d := range taken {
		for i := range perKind {
			c := d.request(i)
			what := c.Request.Operation + " " + c.Request.Subresource
			var got conformance.Want
			if _, err := world.Answer(t.Context(), engine, c, &got); err != nil {
				t.Fatalf("%s: %v\n%v", what, err, c.Object)
			}
			got.Mutated = nil // which the answer of a server does not show
			counts[what]++
			want, difference := conformance.Want{}, ""
			for range 40 { // equality of maps ends at a difference, in random order, or at an error
				if want = askCustom(t, c); got.Status == nil || want.Status == nil {
					difference = conformance.Compare(&want, &got)
				} else if difference = ""; !sameSentences(got.Status.Message, want.Status.Message) ||
					got.Status.Code != want.Status.Code || got.Status.Reason != want.Status.Reason {
					difference = "server:  " + want.Status.Message + "\ncelgate: " + got.Status.Message
				}
				if difference == "" {
					break
				}
			}
			if want.Status != nil {
				refused[what]++
			}
			if difference != "" {
				t.Errorf("%s %s:\n%s\n%v\nstored: %v\nschema: %v", what, d.Kind, difference, c.Object, c.Old, d.Schema)
			}
		}
	}
	t.Logf("requests %v, refused %v", counts, refused)
	for what, n := range counts {
		if refused[what] < n/10 || refused[what] > n*9/10 {
			t.Errorf("%s: %d of %d refused", what, refused[what], n)
		}
	}
}

// define creates the definition without constraints, stores objects, and adds the constraints.
func (d *defined) define(t *testing.T) error {
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	send := func(call server.Call) (*server.Answer, error) { return api.Do(t.Context(), call) }
	strict := d.Object(d.Schema)
	for _, call := range []server.Call{
		{Method: http.MethodPost, Path: definitions, Body: strict, Query: url.Values{"dryRun": {"All"}}},
		{Method: http.MethodPost, Path: definitions, Body: d.Object(d.Lax)},
	} {
		answer, err := send(call)
		if err != nil {
			return err
		}
		if status := answer.Status(); status != nil {
			_, reason, _ := strings.Cut(status.Message, " is invalid: ")
			d.refusal = fmt.Sprintf("%.100s", reason)
			return nil
		}
	}
	awaitServed(t, strict)
	for tries := 0; len(d.stored) < 2; tries++ {
		object := d.random.NewObject(d.Definition, "default")
		object["metadata"].(map[string]any)["name"] = fmt.Sprintf("stored%d", len(d.stored))
		answer, err := send(server.Call{Method: http.MethodPost, Path: d.path(""), Body: object})
		if err != nil {
			return err
		}
		if status := answer.Status(); status != nil {
			if tries > 100 {
				d.refusal = "every object" // such as by the path of a scale in an integer
				return nil
			}
			continue
		}
		made, err := answer.Object()
		if err != nil {
			return err
		}
		if object["status"] != nil {
			made["status"] = map[string]any{"n": int64(d.random.IntN(9))}
			answer, err := send(server.Call{Method: http.MethodPut, Body: made,
				Path: d.path(fmt.Sprintf("stored%d/status", len(d.stored)))})
			if err != nil {
				return err
			}
			if made, err = answer.Object(); err != nil {
				return err
			}
		}
		d.stored = append(d.stored, made)
	}
	var current map[string]any
	own := definitions + "/" + d.Plural + "." + d.Group
	eventually(t, func() string { // its status changes meanwhile
		answer, err := send(server.Call{Method: http.MethodGet, Path: own})
		if err == nil {
			current, err = answer.Object()
		}
		if err != nil {
			return err.Error()
		}
		current["spec"].(map[string]any)["versions"] = []any{d.Version(d.Schema)}
		answer, err = send(server.Call{Method: http.MethodPut, Path: own, Body: current})
		if err != nil {
			return err.Error()
		}
		if status := answer.Status(); status != nil {
			return status.Message
		}
		return ""
	})
	eventually(t, func() string {
		answer, err := send(server.Call{Method: http.MethodPost, Path: d.path(""), Query: url.Values{"dryRun": {"All"}},
			Body: map[string]any{"apiVersion": d.Group + "/v1", "kind": d.Kind, "metadata": map[string]any{"name": "s"},
				"sentinel": "xx"}})
		switch {
		case err != nil:
			return err.Error()
		case answer.Code != http.StatusUnprocessableEntity || !strings.Contains(string(answer.Body), "sentinel: Too long"):
			return fmt.Sprintf("the constraints are not in force: %s", answer.Body)
		}
		return ""
	})
	return nil
}

func (d *defined) path(name string) string {
	return strings.TrimSuffix("/apis/"+d.Group+"/v1/namespaces/default/"+d.Plural+"/"+name, "/")
}

// request returns a random request: of ten, four are for new objects and two for a status.
func (d *defined) request(number int) *conformance.Case {
	object := d.random.NewObject(d.Definition, "default")
	metadata := object["metadata"].(map[string]any)
	c := &conformance.Case{Object: object, Request: &conformance.Request{Operation: "CREATE", User: "dev", DryRun: true,
		APIVersion: d.Group + "/v1", Resource: d.Plural, Namespace: "default"}}
	if number < 4 {
		c.Request.Name = fmt.Sprint(metadata["name"])
		return c
	}
	c.Old = d.stored[number%len(d.stored)]
	if d.random.IntN(3) > 0 { // the stored object with a few members of the new one
		next := runtime.DeepCopyJSON(c.Old)
		for _, member := range []string{"spec", "status"} {
			if object[member] != nil && d.random.IntN(2) == 0 {
				next[member] = object[member]
			}
		}
		old, _ := next["spec"].(map[string]any)
		given, _ := object["spec"].(map[string]any)
		for name, value := range given {
			if old != nil && d.random.IntN(2) == 0 {
				old[name] = value
			}
		}
		c.Object = next
	}
	stored := c.Old["metadata"].(map[string]any)
	next := c.Object["metadata"].(map[string]any)
	next["name"], next["resourceVersion"] = stored["name"], stored["resourceVersion"]
	c.Request.Operation, c.Request.Name = "UPDATE", fmt.Sprint(stored["name"])
	if number >= 8 {
		c.Request.Subresource = "status"
	}
	return c
}

// askCustom returns the answer of the server to a request.
func askCustom(t *testing.T, c *conformance.Case) conformance.Want {
	t.Helper()
	call := server.Call{Method: http.MethodPost, Body: c.Object, Query: url.Values{"dryRun": {"All"}},
		Path: "/apis/" + c.Request.APIVersion + "/namespaces/default/" + c.Request.Resource}
	if c.Old != nil {
		call.Method = http.MethodPut
		call.Path = strings.TrimSuffix(call.Path+"/"+c.Request.Name+"/"+c.Request.Subresource, "/")
	}
	answer, err := api.Do(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	status := answer.Status()
	allowed := status == nil
	want := conformance.Want{Allowed: &allowed, Warnings: answer.Warnings}
	if !allowed {
		want.Status = conformance.Strip(status)
		return want
	}
	object, err := answer.Object()
	if err != nil {
		t.Fatal(err)
	}
	want.Object = conformance.Settle(object)
	return want
}
