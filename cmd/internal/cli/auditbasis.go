package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// digestOf returns a hash of the policies and bindings of a set, and of the libraries that they import, independent of
// formatting.
func digestOf(set *policy.Set) string {
	var all []string
	for _, p := range set.Policies {
		all = append(all, fmt.Sprint(p.Kind, " ", p.Name, writeValue(reflect.ValueOf(*p))))
		for _, l := range p.Libraries() {
			all = append(all, fmt.Sprint(p.Name, " imports ", l.Name, writeValue(reflect.ValueOf(*l))))
		}
	}
	for _, b := range set.Bindings {
		all = append(all, fmt.Sprint(b.Kind, "Binding ", b.Name, writeValue(reflect.ValueOf(*b))))
	}
	slices.Sort(all)
	return digest(strings.Join(all, "\n"))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unsaid are the types of members of policies and bindings that do not affect answers.
var unsaid = []reflect.Type{
	reflect.TypeFor[policy.Position](), reflect.TypeFor[policy.Locator](), reflect.TypeFor[metav1.ObjectMeta](),
}

// writeValue formats a value of a policy without positions and metadata. Zero members are left out, so that a hash does
// not change when policies get new members.
func writeValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		return writeValue(v.Elem())
	case reflect.Slice:
		all := make([]string, v.Len())
		for i := range all {
			all[i] = writeValue(v.Index(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	case reflect.Struct:
		var all []string
		for i := range v.NumField() {
			f, member := v.Type().Field(i), v.Field(i)
			if f.IsExported() && f.Name != "APIVersion" && !slices.Contains(unsaid, f.Type) && !member.IsZero() {
				all = append(all, f.Name+":"+writeValue(member))
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	return fmt.Sprintf("%q", fmt.Sprint(v)) // fmt sorts the keys of maps
}

// questions returns a hash of the flags that select the questions. It is the same in each run.
func (a *audit) questions() string {
	as := a.asked.toAs()
	text, err := json.Marshal([]any{a.deletions, as.Namespace, as.User, as.Groups, as.UID, as.Extra, as.Self,
		a.limits.Memory, a.workloads.Workloads, a.plugins})
	if err != nil { // flags are always serialisable
		panic(err)
	}
	return digest(string(text))
}

// basis returns a hash of all inputs of an audit except the objects and their namespaces; "" with a reason if they
// cannot be known.
func (a *audit) basis(ctx context.Context, w *world, set *policy.Set) (hash, reason string) {
	given := needs.Given{Minor: minorOrNewest(w.version), Deletions: a.deletions}
	if limits, err := needs.Find(set, given); err != nil {
		return "", err.Error()
	} else if slices.ContainsFunc(limits, func(l needs.Limit) bool { return l.Need == needs.Authorizer }) {
		return "", "policies check permissions, which can change at any time"
	}
	var all strings.Builder
	fmt.Fprintln(&all, digestOf(set), report.Version(), w.version, a.questions())
	params, err := w.params(ctx, set)
	if err != nil {
		return "", err.Error()
	}
	for _, param := range params {
		metadata := tree.Object(param).Metadata()
		fmt.Fprintln(&all, metadata.Text("uid"), metadata.Text("resourceVersion"))
	}
	definitions, err := w.live.List(ctx, definitionKind, "")
	if err != nil {
		return "", err.Error()
	}
	for _, definition := range definitions { // servers change conditions in them at any time, without effect
		metadata := tree.Object(definition).Metadata()
		fmt.Fprintln(&all, metadata.Text("uid"), metadata["generation"], metadata.Text("deletionTimestamp"))
	}
	return digest(all.String()), ""
}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
	Kind: "CustomResourceDefinition"}
