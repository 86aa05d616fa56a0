package celgate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// finish completes the decision of a run.
func (r *run) finish() *Decision {
	r.noteUnsimulated()
	r.noteMadeUp()
	r.noteManaged()
	decision := r.decision
	r.release()
	return decision
}

// noteMadeUp adds the notes about made-up values to the decision.
func (r *run) noteMadeUp() {
	var made map[string]bool
	for _, h := range r.mentioning {
		values := h.mentions.MadeUp
		if len(values) == 0 {
			continue
		}
		if made == nil {
			made = r.madeUpMembers()
		}
		var what []string
		for _, v := range values {
			if made[v.Member] {
				what = append(what, v.What)
			}
		}
		if len(what) == 0 {
			continue
		}
		n := Note{Message: "policy " + h.Name + ": only a server knows " + enumerate(
			what) + "; the values are made up"}
		r.decision.addNote(n)
	}
}

// noteManaged adds the notes about managedFields, which the server sets in every object.
func (r *run) noteManaged() {
	if len(r.mentioning) == 0 || r.SubResource != "" && r.SubResource != "status" {
		return
	}
	lacks := func(object map[string]any) bool {
		metadata := tree.Object(object).Metadata()
		return object != nil && metadata["managedFields"] == nil
	}
	if !lacks(r.Object) && !lacks(r.OldObject) {
		return
	}
	for _, h := range r.mentioning {
		if h.mentions.Managed {
			r.decision.addNote(Note{Message: "policy " + h.Name +
				": the server gives every object metadata.managedFields; they are not simulated"})
		}
	}
}

// madeUpMembers returns the members of objects in expressions whose values are made up.
func (r *run) madeUpMembers() map[string]bool {
	made := map[string]bool{}
	resource := r.engine.types.Resource(r.Resource)
	if resource == nil {
		return made
	}
	note := func(object map[string]any, of *schema.Resource) {
		if object != nil && of != nil {
			for _, member := range prepare.MadeUpMembers(object, of) {
				made[member] = true
			}
		}
	}
	note(r.Object, resource)
	note(r.OldObject, resource)
	note(r.own.object, r.engine.types.ResourceFor(namespaceKind))
	return made
}

// noteUnsimulated adds the notes about plugins to the decision.
func (r *run) noteUnsimulated() {
	if len(r.mentioning) == 0 || r.Kind != podKind || r.Operation != Create || r.SubResource != "" {
		return
	}
	spec := specOf(r.Object)
	for _, h := range r.mentioning {
		what, names := make([]string, 0, 8), make([]string, 0, 8) // on the stack
		refusal := ""
		for _, p := range h.mentions.Plugins {
			if p.ByAccount {
				r.noteAccount(h, tree.Object(spec).Text("serviceAccountName"))
			}
			if !r.fills(p, spec) {
				continue
			}
			what = append(what, p.What)
			names = append(names, p.Name)
			if p.Refuses != nil && slices.ContainsFunc(r.decision.Changes, func(c Change) bool {
				return c.Policy == h.Name && p.Refuses(specOf(c.Before), specOf(c.After))
			}) {
				refusal = ", " + p.Refusal
			}
		}
		if len(what) == 0 {
			continue
		}
		slices.Sort(names)
		n := Note{
			Message: "policy " + h.Name + ": before policies see a new Pod the server fills in " + enumerate(what) +
				" (" + enumerate(slices.Compact(names)) + "); this is not simulated" + refusal,
		}
		r.decision.addNote(n)
	}
}

// noteAccount adds the note that a policy looks at what depends on a ServiceAccount that is not known.
func (r *run) noteAccount(h *hook, name string) {
	if !r.engine.plugins.AssumesAccount(r.ctx, r.Namespace, name) {
		return
	}
	r.decision.addNote(Note{Message: fmt.Sprintf("policy %s: ServiceAccount %s/%s is not in the cluster state: "+
		"celgate assumes that it exists and mounts its token, as one without settings of its own does",
		h.Name, r.Namespace, name)})
}

// fills reports whether a plugin would change the Pod of the request.
func (r *run) fills(p *quirks.Plugin, spec map[string]any) bool {
	if p.Fills == nil && r.engine.plugins.Has(p.Name) {
		return false
	}
	if p.Fills != nil {
		return p.Fills(spec)
	}
	objects, err := r.engine.cluster.List(context.WithoutCancel(r.ctx), p.By, r.Namespace)
	return err == nil && len(objects) > 0
}

func specOf(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	return spec
}

func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
