// Package upgrades asks a real kube-apiserver of a minor about the policies that upgrades affect. celgate diff must report
// the same answers about every pair of minors, see TestUpgrades in cmd/internal/cli.
package upgrades

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/quirks"
)

var minor = flag.String("minor", celgate.Newest, "of the kube-apiserver, such as 1.33; all: one after the other")

// waitTime is how long a policy may take to be in force.
const waitTime = 10 * time.Second

func TestAnswers(t *testing.T) {
	if *minor != "all" && quirks.ReleaseOf(*minor).Minor == "" {
		t.Fatalf("%q is not a minor", *minor)
	}
	for _, r := range quirks.Releases() {
		if *minor == "all" || *minor == r.Minor {
			t.Run(r.Minor, func(t *testing.T) { ask(t, r.Minor) })
		}
	}
}

// ask starts a server of a minor and compares its answers with the stated ones.
func ask(t *testing.T, minor string) {
	t.Helper()
	rows, err := conformance.Upgrades()
	if err != nil {
		t.Fatal(err)
	}
	options := server.Options{}
	if minor != celgate.Newest {
		options.Minor = minor
	}
	api, err := server.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	do := func(call server.Call) *server.Answer {
		t.Helper()
		answer, err := api.Do(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var version struct{ Major, Minor string }
	body := do(server.Call{Method: http.MethodGet, Path: "/version"}).Body
	if err := json.Unmarshal(body, &version); err != nil || version.Major+"."+version.Minor != minor {
		t.Fatalf("version %+v, %v", version, err)
	}

	refused := map[string]string{} // by the name of the row: the message
	for _, row := range rows {
		policy, binding := row.Policy()
		for _, tree := range []map[string]any{policy, binding} {
			answer := do(server.Call{Method: http.MethodPost, Path: collectionOf(tree, false), Body: tree})
			if status := answer.Status(); status != nil && refused[row.Name] == "" {
				refused[row.Name] = status.Message
			}
		}
	}
	// A denial by the last policy means that those before it are in force, too, and so that what they allow is their answer.
	if last := rows[len(rows)-1]; last.AnswerOf(minor) != "denied" {
		t.Fatalf("%s, the last one, is to deny", last.Name)
	}
	for _, row := range slices.Backward(rows) {
		want := row.AnswerOf(minor)
		if message, is := refused[row.Name]; is {
			if want != "refused" {
				t.Errorf("%s: refused, not %s: %s", row.Name, want, message)
			}
			continue
		}
		got, text := "", ""
		for end := time.Now().Add(waitTime); got != want && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got, text = answerOf(do(server.Call{
				Method: http.MethodPost, Path: collectionOf(row.Object, true), Body: row.Object,
				Query: map[string][]string{"dryRun": {"All"}},
			}))
		}
		if got != want {
			t.Errorf("%s: %s, not %s: %s", row.Name, got, want, text)
		}
	}
	t.Logf("%d policies, refused: %v", len(rows), slices.Sorted(maps.Keys(refused)))
}

// collectionOf is the path to which an object is posted; those with namespaces go to default.
func collectionOf(tree map[string]any, namespaced bool) string {
	path, of := "/apis/"+tree["apiVersion"].(string), conformance.ResourceOf(tree)
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	if namespaced {
		path += "/namespaces/default"
	}
	return path + "/" + of.Resource
}

func answerOf(answer *server.Answer) (got, text string) {
	if status := answer.Status(); status != nil {
		if !strings.Contains(status.Message, "denied request") {
			return "an error", status.Message
		}
		return "denied", status.Message
	}
	tree, err := answer.Object()
	if err != nil {
		return "an error", err.Error()
	}
	labels, _ := tree["metadata"].(map[string]any)["labels"].(map[string]any)
	if _, is := labels["changed"]; is {
		return "changed", fmt.Sprint(labels)
	}
	return "allowed", ""
}
