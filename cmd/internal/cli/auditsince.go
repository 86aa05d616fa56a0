package cli

import (
	"context"
	"errors"
	"os"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
)

// An earlier report has the findings about unchanged objects.
type earlier struct {
	report   *report.StoredAudit
	file     *os.File
	findings *report.Findings
	failed   map[report.AuditObject]bool // without uids
	changed  map[string]bool             // namespaces
}

// checkSince refuses flags that cannot be combined with --changed-since.
func (a *audit) checkSince() error {
	switch {
	case a.since == "":
	case a.log != "" || a.live == (live{}):
		return &usageError{errors.New("--changed-since needs a live cluster")}
	case a.keeps(a.since) != nil:
		return a.keeps(a.since)
	case a.write != "" || a.wants("openreports", "policyreport"):
		return &usageError{errors.New("--changed-since cannot be combined with reports for a cluster, which count the objects that pass")}
	}
	return nil
}

// rest computes the inputs of answers, and opens the earlier report. It records the state of the namespaces before
// anything else is read.
func (a *audit) rest(ctx context.Context, of *auditor) error {
	var reason string
	of.audit.Basis, reason = a.basis(ctx, of.world, of.force)
	for page, err := range of.world.live.Pages(ctx, namespaceVersions, "") {
		if err != nil {
			of.audit.Basis, reason = "", err.Error()
		} else {
			of.audit.ReadTo("namespaces", page.Version)
		}
		break
	}
	if a.since == "" {
		return nil
	}
	var err error
	of.earlier, err = a.remember(ctx, of, reason)
	return err
}

// namespaceVersions are the objects whose labels affect answers.
var namespaceVersions = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// close closes the report.
func (e *earlier) close() {
	if e != nil {
		_ = e.file.Close() // it was only read
	}
}

// remember opens the report of --changed-since if its findings are still valid for unchanged objects. Otherwise it
// prints the reason.
func (a *audit) remember(ctx context.Context, of *auditor, reason string) (*earlier, error) {
	last, err := readReport(a.since)
	if err != nil {
		return nil, err
	}
	again := func(why string) (*earlier, error) {
		a.say("all objects are audited again: "+why, "")
		return nil, nil
	}
	switch {
	case last.Basis() == "":
		return again(a.since + " does not record the inputs of its answers")
	case of.audit.Basis == "":
		return again("the inputs of the answers are not known: " + reason)
	case last.PolicySet() != of.audit.PolicySet:
		return again("policies or bindings have changed since")
	case last.Basis() != of.audit.Basis:
		return again("params, kinds, flags or celgate have changed since")
	case last.Totals().Failed > len(last.FailedObjects()):
		return again(a.since + " does not name all objects that could not be evaluated")
	}
	e := &earlier{report: last, failed: map[report.AuditObject]bool{}, changed: map[string]bool{}}
	for _, object := range last.FailedObjects() {
		e.failed[object] = true
	}
	namespaces, err := of.world.live.List(ctx, namespaceKind, "")
	if err != nil {
		return nil, err
	}
	read := last.Read()["namespaces"]
	for _, namespace := range namespaces {
		if !isUnchangedSince(namespace, read) {
			e.changed[tree.Object(namespace).Name()] = true
		}
	}
	if e.file, err = os.Open(a.since); err != nil {
		return nil, err
	}
	if e.findings, err = last.Findings(e.file); err != nil {
		return nil, errors.Join(err, e.file.Close())
	}
	of.audit.TakeOver(last)
	return e, nil
}

// isUnchangedSince reports whether an object was last changed before a resource was read.
func isUnchangedSince(object map[string]any, read string) bool {
	newer, comparable := report.IsOlder(read, tree.Object(object).Metadata().Text("resourceVersion"))
	return comparable && !newer
}

// takesOver returns the findings of an earlier report about an unchanged object; false if it must be audited again.
func (e *earlier) takesOver(doc *manifest.Document, resource *schema.Resource,
	object report.AuditObject) (found []report.AuditFinding, known bool, err error) {
	if e == nil || !isUnchangedSince(doc.Object, e.report.Read()[resource.GroupResource().String()]) ||
		object.Namespace != "" && e.changed[object.Namespace] ||
		e.failed[report.AuditObject{APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Namespace,
			Name: object.Name}] {
		return nil, false, nil
	}
	found, err = e.findings.Find(object.UID)
	return found, err == nil, err
}
