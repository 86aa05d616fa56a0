package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A replaying repeats the requests in an audit log, in their order. The object before a request comes from an earlier
// response in the log.
type replaying struct {
	*audit
	world *world
	known *lru.Cache // objectKey → map[string]any, from responses
	to    []*auditor // the auditors; the first one records errors

	size, read atomic.Int64 // bytes of the log, 0: unknown; bytes read
	seen       atomic.Int64 // requests in the bytes read
}

// remembered is the number of objects of responses that are kept, the most recent ones.
const remembered = 20_000

// An objectKey identifies an object independent of its version.
type objectKey struct {
	storage, namespace, name string
}

// A pastRequest is a request of the log.
type pastRequest struct {
	event   *requests.Event
	request *celgate.Request
}

func (r *replaying) prepare(ctx context.Context, loader *manifest.Loader) (sources, error) {
	r.known = lru.New(remembered)
	return r.sources(ctx)
}

// assumeNamespaces adds the namespaces of requests: all of them if nothing is known of the cluster.
func (r *replaying) assumeNamespaces(_ context.Context, w *world) error {
	r.world = w
	w.anyNamespace = w.live == nil
	return nil
}

// total estimates the number of requests from the part of the log that has been read.
func (r *replaying) total() int {
	if size, read := r.size.Load(), r.read.Load(); size > 0 && read > 0 {
		return int(float64(r.seen.Load()) * float64(size) / float64(read))
	}
	return 0
}

// counted counts the bytes read.
type counted struct {
	io.Reader
	n *atomic.Int64
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// sizes does nothing: requests are not divided among shards.
func (r *replaying) sizes(context.Context, *auditor) (map[string]int, error) { return nil, nil }

// close prints the namespaces that were assumed.
func (r *replaying) close() {
	if r.world == nil || !newNotes(&r.world.set, r.world, &r.asked).namespaces {
		return
	}
	var names []string
	r.world.imagined.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	if len(names) > 0 {
		r.say("namespaces that are not given are assumed to exist without labels of their own: "+listFew(names),
			"give them with -c")
	}
}

// subjects yields the requests that can be repeated, and counts the others.
func (r *replaying) subjects(ctx context.Context, of *auditor) iter.Seq[subjectOf] {
	r.to = []*auditor{of}
	return r.requests(ctx)
}

// requests yields the subjects for all auditors.
func (r *replaying) requests(ctx context.Context) iter.Seq[subjectOf] {
	return func(yield func(subjectOf) bool) {
		of := r.to[0]
		counting := func(s subjectOf) bool {
			r.seen.Add(1)
			return yield(s)
		}
		in := r.stdin
		if r.log != "-" {
			file, err := os.Open(r.log)
			if err != nil {
				of.fail(err)
				return
			}
			defer file.Close()
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				r.size.Store(info.Size())
			}
			in = counted{file, &r.read}
		}
		lines, err := unpack(in)
		if err != nil {
			of.fail(fmt.Errorf("%s: %w", r.log, err))
			return
		}
		wrong := 0
		defer func() {
			if more := wrong - maxWrong; more > 0 {
				of.fail(fmt.Errorf("%s: %s that cannot be read", r.log, plural(more, "more line", "more lines")))
			}
		}()
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				of.fail(fmt.Errorf("%s: %w", r.log, err))
				return
			}
			ended := err != nil
			if line = bytes.TrimSpace(line); len(line) > 0 {
				place := policy.Position{File: r.log, Line: number, Column: 1}
				if r.log == "-" {
					place.File = "<stdin>"
				}
				events, err := requests.ReadEvents(line)
				if err != nil {
					if wrong++; wrong <= maxWrong {
						of.noteUnlisted(report.Unread{What: place.String(), Message: err.Error()})
					}
				}
				for _, event := range events {
					if ctx.Err() != nil || !r.event(event, place, counting) {
						return
					}
				}
			}
			if ended {
				return
			}
		}
	}
}

// maxWrong is the number of lines without an event that are named.
const maxWrong = 10

// unpack reads a log, which may be compressed by gzip, as rotated ones are. A byte order mark is skipped.
func unpack(in io.Reader) (*bufio.Reader, error) {
	lines := bufio.NewReaderSize(in, 1<<20)
	if head, _ := lines.Peek(2); string(head) == "\x1f\x8b" {
		plain, err := gzip.NewReader(lines)
		if err != nil {
			return nil, err
		}
		lines = bufio.NewReaderSize(plain, 1<<20)
	}
	if head, _ := lines.Peek(3); string(head) == "\ufeff" {
		_, _ = lines.Discard(len(head)) // was peeked
	}
	return lines, nil
}

// fail records a read error.
func (of *auditor) fail(err error) {
	of.noteUnlisted(report.Unread{What: "the audit log", Message: err.Error()})
}

// event yields the request of an event if policies may match it. It returns false if the consumer has stopped.
func (r *replaying) event(event *requests.Event, place policy.Position, yield func(subjectOf) bool) bool {
	if !event.Asks() {
		return true
	}
	resource := r.world.types.Resource(event.Resource)
	var key objectKey
	var old map[string]any
	if resource != nil {
		key = objectKey{cmp.Or(resource.Storage, resource.GroupResource().String()), event.Namespace,
			cmp.Or(event.Name, tree.Object(event.RequestObject).Name())}
		old = r.objectBefore(event, key, resource)
	}
	defer r.learn(event, key, resource)
	subject := subjectOf{doc: &manifest.Document{}, past: &pastRequest{event: event}}
	mayMatch := func(of *auditor) bool {
		if resource == nil { // perhaps a custom resource that no longer exists
			return slices.ContainsFunc(of.force.Policies,
				func(p *policy.Policy) bool { return names(p, event.Resource) })
		}
		return of.engine.MayMatch(event.Resource, event.Sub, event.Operation())
	}
	if !slices.ContainsFunc(r.to, mayMatch) {
		return yield(subject)
	}
	if event.Code == http.StatusNotFound {
		r.to[0].leave("their objects did not exist, so policies were not evaluated")
		return true
	}
	compares := slices.ContainsFunc(r.to, func(of *auditor) bool { return of.compares(event.Resource) })
	request, err := requests.EventRequest(r.world.types, event, old, !compares)
	if err != nil {
		r.to[0].leave(err.Error())
		return true
	}
	subject.past.request = request
	if subject.doc.Object = request.Object; request.Object == nil {
		subject.doc.Object = request.OldObject
	}
	subject.doc.Source = &manifest.Source{File: place.File, Line: place.Line}
	return yield(subject)
}

// objectBefore returns the object before a request, from an earlier response or from the cluster state; nil if it is
// not known.
func (r *replaying) objectBefore(event *requests.Event, key objectKey, resource *schema.Resource) map[string]any {
	if event.Verb == "create" && event.Sub == "" {
		return nil
	}
	known, ok := r.known.Get(key)
	old, _ := known.(map[string]any)
	if !ok && r.world.live == nil { // a live cluster has the state after the requests
		old, _ = r.world.stored.Get(context.Background(), resource.GroupVersionKind(), event.Namespace, key.name)
	}
	if old == nil {
		return nil
	}
	if version := tree.Object(event.RequestObject).Metadata().Text("resourceVersion"); version != "" &&
		version != tree.Object(old).Metadata().Text("resourceVersion") {
		return nil // another request came in between
	}
	if kind := tree.Object(old).Kind(); kind.Version != event.Resource.Version {
		converted, err := r.world.types.Convert(old, resource.GroupVersionKind())
		if err != nil {
			return nil
		}
		return converted
	}
	return old
}

// learn records the object that a request left behind.
func (r *replaying) learn(event *requests.Event, key objectKey, resource *schema.Resource) {
	if resource == nil || event.DryRun() || event.HasFailed() {
		return
	}
	if event.Verb == "delete" && event.Sub == "" {
		r.known.Remove(key)
		return
	}
	if stored := event.StoredObject(); stored != nil &&
		tree.Object(stored).Kind().GroupKind() == resource.GroupVersionKind().GroupKind() {
		key.name = tree.Object(stored).Name()
		r.known.Add(key, stored)
	} else if event.Verb != "create" {
		r.known.Remove(key) // its present state is unknown
	}
}

// names reports whether a rule of a policy names a resource, in any version.
func names(p *policy.Policy, resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(p.Rules(), func(rule policy.Rule) bool {
		return (slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, resource.Group)) &&
			slices.ContainsFunc(rule.Resources, func(name string) bool {
				name, _, _ = strings.Cut(name, "/")
				return name == "*" || name == resource.Resource
			})
	})
}

// compares reports whether a policy that may match a resource reads the object before a request, or its labels.
func (of *auditor) compares(resource schema.GroupVersionResource) bool {
	labels := func(m *policy.MatchResources) bool {
		return m != nil && m.ObjectSelector != nil &&
			len(m.ObjectSelector.MatchLabels)+len(m.ObjectSelector.MatchExpressions) > 0
	}
	return slices.ContainsFunc(of.force.Policies, func(p *policy.Policy) bool {
		if !names(p, resource) && (p.MatchConstraints == nil || p.MatchConstraints.MatchPolicy == policy.Exact) {
			return false
		}
		return labels(p.MatchConstraints) ||
			slices.ContainsFunc(of.comparing,
				func(l needs.Limit) bool { return l.Kind == p.Kind && l.Policy == p.Name }) ||
			slices.ContainsFunc(of.force.Bindings, func(b *policy.Binding) bool {
				return b.Binds(p) && labels(b.MatchResources)
			})
	})
}

// sayUnchanged reports that no request of a log was repeated; left is the number of requests that policies may match.
func (a *apply) sayUnchanged(log string, left int) {
	what := "no requests in " + log + " that can be repeated"
	if left > 0 {
		what = fmt.Sprintf("nothing is evaluated: of %s in %s that policies may match, none can be repeated",
			plural(left, "request", "requests"), log)
	}
	a.say(what, "only the levels Request and RequestResponse contain the bodies of requests")
}

// leave records a request that cannot be repeated. Only the reading goroutine calls it.
func (of *auditor) leave(reason string) {
	of.unreadMu.Lock()
	defer of.unreadMu.Unlock()
	if of.left == nil {
		of.left = map[string]int{}
	}
	of.left[reason]++
}

// replay repeats a request. It returns nil if no policy can match it.
func (of *auditor) replay(ctx context.Context, s subjectOf) (result *report.Audited) {
	event, request := s.past.event, s.past.request
	if request == nil {
		return nil
	}
	was := report.WasFailed
	switch {
	case event.Code == 0:
		was = report.WasUnknown
	case event.HasSucceeded():
		was = report.WasAllowed
	case wording.Denier(event.Message) != "":
		was = report.WasDenied
	}
	result = &report.Audited{
		Past: &report.Past{ID: event.AuditID, User: event.User.Username, Time: event.Time, Sub: event.Sub, Was: was},
		Object: report.AuditObject{
			APIVersion: event.Resource.GroupVersion().String(), Kind: request.Kind.Kind, Name: request.Name,
			Namespace: event.Namespace,
			UID:       tree.Object(s.doc.Object).Metadata().Text("uid"), Place: s.doc.Position(),
		},
	}
	defer func() {
		if p := recover(); p != nil { // a panic about one request must not lose the results of the others
			result.Failure = &report.Failure{Message: fmt.Sprintf("internal error: %v", p),
				Hint: "please report it, with this:\n" + string(debug.Stack())}
		}
	}()
	it := answer{doc: s.doc, Item: report.Item{Place: result.Object.Place, Kind: request.Kind,
		Name: result.Object.Name}}
	of.decideAbout(ctx, &it, request, nil)
	if it.Failure != nil {
		result.Failure = it.Failure
		return result
	}
	asked := report.Asked{Ask: asksOf[request.Operation], Item: it.Item}
	asked.Item.Changes = it.Decision.Changes
	result.Answers = []report.Asked{asked}
	return result
}
