package celgate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/policy"
)

// wouldMutateAnnotation lists changes and failures of mutations of bindings with mutationAction Audit, applied or not.
const wouldMutateAnnotation = "would_mutate"

// tellChange reports the changes of an invocation by warning and annotation, as the binding requires.
func (r *run) tellChange(in *invocation, before, after map[string]any) {
	actions := in.binding.MutationActions
	if !slices.Contains(actions, policy.Warn) && !slices.Contains(actions, policy.Audit) {
		return
	}
	paths := changedPaths(rewrite.Diff(before, after, r.engine.types.Type(in.kind)))
	does := "changes"
	if in.binding.DryRun() {
		does = "would change"
	}
	r.tellMutations(in.binding, wouldMutate{Policy: in.hook.Name, Binding: in.binding.Name, Param: in.paramName(),
		Applied: !in.binding.DryRun(), Paths: paths}, does+" "+strings.Join(paths, ", "))
}

// tellFailure reports a failure of a mutation that is not applied, and therefore does not deny.
func (r *run) tellFailure(f *policyError) {
	all := f.hook.bindings
	if f.binding != nil {
		all = []*compiledBinding{f.binding}
	}
	does := "would fail: "
	if f.denied {
		does = "would deny the request: "
	}
	for _, b := range all {
		told := f.message
		if b.Visibility.Violations == policy.AdminSees {
			told = "the reason is hidden from the client"
		}
		r.tellMutations(b, wouldMutate{Policy: f.hook.Name, Binding: b.Name, Param: f.param, Message: f.message},
			does+told)
	}
}

func (r *run) tellMutations(b *compiledBinding, would wouldMutate, what string) {
	if slices.Contains(b.MutationActions, policy.Warn) || r.DryRun && b.DryRun() &&
		b.Visibility.DryRun == policy.AlwaysTell {
		r.decision.warn(Warning{Text: fmt.Sprintf("%s '%s' with binding '%s' %s", policy.Admission, would.Policy,
			would.Binding, what)})
	}
	if slices.Contains(b.MutationActions, policy.Audit) {
		more := r.decision.addRare()
		more.would = append(more.would, would)
		if text, err := json.Marshal(more.would); err == nil {
			r.decision.annotate(wouldMutateAnnotation, string(text))
		}
	}
}

// maxPathsTold bounds the paths reported for one change.
const maxPathsTold = 20

// changedPaths returns the paths that differ, each once, in their order.
func changedPaths(hunks []rewrite.Hunk) []string {
	var paths []string
	for _, h := range hunks {
		for _, line := range h.Lines {
			path := h.Path
			member, _, isMember := strings.Cut(line[min(2, len(line)):], ":")
			switch {
			case strings.HasPrefix(member, " "):
				continue // below the path of an earlier line
			case isMember && !strings.ContainsAny(member, " -"):
				path = strings.TrimPrefix(path+"."+member, ".")
			}
			if path = cmp.Or(path, "the object"); !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) > maxPathsTold {
		paths = append(paths[:maxPathsTold], "…")
	}
	return paths
}
