package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/order"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Created is an object that controllers would create for the object of a case, with the answer to its request.
type Created struct {
	Kind     string
	Name     string // "namespace/name"; a name that the server will generate ends in an asterisk
	Request  *celgate.Request
	Decision *celgate.Decision
}

// A CreatedExpectation is an expectation about objects that controllers create.
type CreatedExpectation struct {
	Place policy.Position
	Of    string // the kind, such as Pod, or kind/name
	Expectation
}

// follow decides about the objects that controllers create for an allowed one, and from these in turn.
func (run *caseRun) follow(w *requests.Workloads, stored map[string]any, parent *celgate.Request) {
	children, err := w.Children(stored)
	if err != nil {
		run.setNotRun(&Problem{Position: run.Place, Message: describe(stored) + ": " + err.Error(),
			Hint: "the path is that of podsOf"})
		return
	}
	for _, c := range children {
		child := &caseRun{Result: &Result{Set: run.Set}, doc: &manifest.Document{Object: c.Object}, arena: run.arena,
			ctx: run.ctx, how: run.how, says: describe(c.Object)}
		request, err := w.ChildRequest(c, parent, run.arena.types)
		if err == nil {
			err = child.answer(request)
		}
		if err != nil {
			run.setNotRun(&Problem{Position: run.Place, Message: child.says + ": " + err.Error()})
			return
		}
		if c.Waiting != "" {
			child.note("not created as long as " + c.Waiting)
		}
		run.created = append(run.created, child)
		run.Created = append(run.Created, Created{child.Request.Kind.Kind,
			strings.TrimPrefix(child.says, child.Request.Kind.Kind+" "), child.Request, child.Decision})
		if child.Decision.Allowed {
			run.follow(w, child.Decision.Object, child.Request)
		}
		if run.Status == NotRun {
			return
		}
	}
}

// note records a reason why the answer is uncertain.
func (run *caseRun) note(message string) {
	run.Decision.Notes = append(run.Decision.Notes, celgate.Note{Message: message})
	run.Notes = append(run.Notes, message)
}

// compareCreated compares the created objects with their expectations; without one they must be allowed if the case's
// object must.
func (run *caseRun) compareCreated(e *Expectation) {
	expected := map[*caseRun]bool{}
	for i := range e.Created {
		want := &e.Created[i]
		found := false
		for _, child := range run.created {
			if child.Request.Kind.Kind != want.Of && !isNamed(child.doc.Object, want.Of) {
				continue
			}
			found, expected[child] = true, true
			child.compare(&want.Expectation, false)
			run.adopt(child)
		}
		if !found {
			run.fail(Failure{Place: want.Place, Expected: "controllers create the " + want.Of, Got: run.listCreated()})
		}
	}
	if e.Denied != nil || len(e.Skipped) > 0 {
		return
	}
	for _, child := range run.created {
		if expected[child] || child.Decision.Allowed {
			continue
		}
		child.fail(Failure{Place: e.Place, Expected: "allowed, like its owner", Got: child.tellDenial(),
			Causes: child.denials(),
			Hint: fmt.Sprintf("if this is intended, write created: {%s: denied} under expect, or workloads: false in the case",
				child.Request.Kind.Kind)})
		run.adopt(child)
	}
}

// adopt adds the failures of a child to those of the case.
func (run *caseRun) adopt(child *caseRun) {
	if len(child.Failures) == 0 {
		return
	}
	child.explain()
	for _, f := range child.Failures {
		f.Expected, f.created = child.says+": "+f.Expected, true
		for i := range f.Causes {
			f.Causes[i].outcome = -1 // the outcome belongs to another decision, and is explained already
		}
		run.Failures = append(run.Failures, f)
	}
	child.Failures = nil
}

// listCreated lists the created objects.
func (run *caseRun) listCreated() string {
	if len(run.created) == 0 {
		return "nothing is created: " + run.nothingReason()
	}
	var lines []string
	for _, c := range run.created {
		line := c.says + ": allowed"
		if !c.Decision.Allowed {
			line = c.says + ": " + c.tellDenial()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (run *caseRun) nothingReason() string {
	switch r := run.Request; {
	case !run.Decision.Allowed:
		return "the request is denied"
	case run.workloads.Off:
		return "workloads is false"
	case r.SubResource != "" || r.Operation != celgate.Create && r.Operation != celgate.Update:
		return "only a CREATE or UPDATE of a workload is followed"
	}
	return "controllers do not create objects for a " + run.Request.Kind.Kind
}

// exercisedByChildren reports whether a policy took part in the request of a created object.
func (run *caseRun) exercisedByChildren() bool {
	return slices.ContainsFunc(run.created, func(c *caseRun) bool { return c.isInvolved("", "") })
}

// answer prepares a request and decides it.
func (run *caseRun) answer(request *celgate.Request) error {
	run.Request = request
	engine := run.arena.engine
	prepared, err := engine.Prepare(run.ctx, request)
	if status, ok := requests.Refusal(err); ok {
		run.Decision = &celgate.Decision{Status: status}
		return nil
	}
	if err != nil {
		return err
	}
	run.Request, run.prepared = prepared.Request(), prepared
	if run.Decision, err = engine.Explain(run.ctx, prepared, run.how); err != nil {
		return err
	}
	inOrder, err := order.Note(run.ctx, engine, prepared, run.Decision)
	if err != nil {
		return err
	}
	for _, note := range []*celgate.Note{requests.NoteSize(request), inOrder} {
		if note != nil {
			run.note(note.Message)
		}
	}
	return nil
}
