package playground

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Question is the input of a proof about the policies of an [Ask].
type Question struct {
	Ask
	About  string `json:"about"`  // a question of celgate prove: "vacuity", "error-free", "holds", …
	Claim  string `json:"claim"`  // CEL, of "holds"
	Before string `json:"before"` // the policies to compare with, of "stricter" and "equivalent"
}

// EarlierFile is the name of the policies of [Question.Before] in answers.
const EarlierFile = "earlier.yaml"

// Proofs is the output of celgate prove.
type Proofs struct {
	Standing
	Proofs    []Proof `json:"proofs"`    // empty if a server refuses a policy
	Undecided int     `json:"undecided"` // the number of questions of "vacuity" without an answer
	Note      string  `json:"note"`      // why there is no proof
}

// A Proof is the answer to one claim.
type Proof struct {
	Answer  string   `json:"answer"`  // proved, counterexample, undecided or not found; of a part without an effect vacuous
	Claim   string   `json:"claim"`   // a sentence
	Text    string   `json:"text"`    // the output of celgate prove about it, in the colours of a terminal
	Example *Example `json:"example"` // null without a counterexample
}

// An Example is the request of a counterexample, as an [Ask] about it would have it.
type Example struct {
	Objects   string   `json:"objects"` // a manifest; an AdmissionReview of what is not about one
	Old       string   `json:"old"`
	State     string   `json:"state"` // the objects that must exist, and the definitions of kinds
	Operation string   `json:"operation"`
	User      string   `json:"user"` // empty: any user
	Groups    []string `json:"groups"`
	DryRun    bool     `json:"dryRun"`
}

// A Prover answers one question at a time. The zero value is ready for use by a single goroutine.
type Prover struct {
	session Session
}

// Prove answers a question. The error is an error in the question, such as an unknown minor or an invalid claim.
func (p *Prover) Prove(ctx context.Context, q Question) (*Proofs, error) {
	w, err := p.session.world(&q.Ask)
	if err != nil {
		return nil, err
	}
	out := &Proofs{Standing: w.standing(), Proofs: []Proof{}}
	out.Problems = slices.Concat([]Problem{}, p.session.policies.problems, p.session.around.problems)
	if len(out.Refused) > 0 || len(out.Problems) > 0 {
		out.Note = "Nothing is asked before the policies and the cluster state are valid and a server stores the policies."
		return out, nil
	}
	if q.About == "holds" && strings.TrimSpace(q.Claim) == "" {
		return nil, errors.New("no claim is given")
	}
	room, err := prove.NewRoom(w.types, w.minor)
	if err != nil {
		return nil, err
	}
	now, err := newSet(room, PolicyFile, &p.session.policies)
	if err != nil {
		return nil, err
	}
	bound := slices.ContainsFunc(w.set.Policies, func(one *policy.Policy) bool { return w.set.Binds(one.Ref()) })
	mutates := slices.Contains([]string{"idempotent", "commutative", "accepts"}, q.About)
	switch {
	case !bound && q.About != "stricter" && q.About != "equivalent":
		out.Note = "No policy is in force: a policy needs a binding."
		return out, nil
	case mutates && !now.Side.HasMutations():
		out.Note = "No MutatingAdmissionPolicy is in force."
		return out, nil
	}
	var all []report.Proof
	switch q.About {
	case "vacuity":
		if err := out.addVacuous(ctx, room, now); err != nil {
			return nil, err
		}
		if len(out.Proofs)+out.Undecided == 0 {
			out.Note = "Every part of the validating policies has an effect."
		}
		return out, nil
	case "error-free":
		all, err = proofs.ErrorFree(ctx, room, now)
	case "idempotent":
		all, err = proofs.Idempotence(ctx, room, now)
	case "commutative":
		all, err = proofs.Commutativity(ctx, room, now)
	case "holds":
		all, err = one(proofs.Holds(ctx, room, q.Claim, now, nil))
	case "accepts":
		all, err = one(proofs.Accepts(ctx, room, now, now))
	case "stricter", "equivalent":
		all, err = p.compare(ctx, room, now, &q, w)
	default:
		err = fmt.Errorf("unknown question %q", q.About)
	}
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		proof, err := w.proof(one)
		if err != nil {
			return nil, err
		}
		out.Proofs = append(out.Proofs, *proof)
	}
	if len(all) == 0 {
		out.Note = "There is nothing to ask about these policies."
		if q.About == "commutative" {
			out.Note = "Only one MutatingAdmissionPolicy is in force."
		}
	}
	return out, nil
}

func one(p report.Proof, err error) ([]report.Proof, error) { return []report.Proof{p}, err }

// compare compares the policies with earlier ones, in one direction or in both.
func (p *Prover) compare(ctx context.Context, room *prove.Room, now proofs.Set, q *Question,
	w *world) ([]report.Proof, error) {
	earlier := readPolicies(&Ask{Policies: q.Before}, EarlierFile)
	if len(earlier.problems) > 0 {
		return nil, fmt.Errorf("the policies to compare with: %s", earlier.problems[0].Message)
	}
	engine, err := celgate.New(earlier.set, celgate.Options{KubeVersion: w.minor, Types: w.types})
	if err != nil {
		return nil, err
	}
	if refused := engine.Rejections(); len(refused) > 0 {
		return nil, fmt.Errorf("the policies to compare with: a server does not store %s", refused[0].Ref)
	}
	old, err := newSet(room, EarlierFile, &earlier)
	if err != nil {
		return nil, err
	}
	proof, err := proofs.Stricter(ctx, room, old, now)
	if err != nil || q.About == "stricter" {
		return []report.Proof{proof}, err
	}
	back, err := proofs.Stricter(ctx, room, now, old)
	return []report.Proof{proof, back}, err
}

// newSet returns the policies that are bound, with their bindings.
func newSet(room *prove.Room, name string, p *policies) (proofs.Set, error) {
	force := *p.set
	force.Policies = slices.DeleteFunc(slices.Clone(force.Policies), func(one *policy.Policy) bool {
		return !force.Binds(one.Ref())
	})
	side, err := room.NewSide(&force, proofs.ManifestsIn(p.docs))
	return proofs.Set{Name: name, Side: side}, err
}

// addVacuous adds the parts of a set without an effect.
func (out *Proofs) addVacuous(ctx context.Context, room *prove.Room, s proofs.Set) error {
	all, err := room.Vacuous(ctx, s.Side)
	if err != nil {
		return err
	}
	out.Undecided = all.Undecided + len(s.Side.Outside())
	for _, v := range all.Found {
		var text bytes.Buffer
		about := report.Options{Types: room.Types, Color: true}
		if err := report.WriteVacuities("text", &text, about, &prove.Vacuities{Found: []prove.Vacuity{v}}); err != nil {
			return err
		}
		out.Proofs = append(out.Proofs, Proof{Answer: "vacuous", Claim: "policy " + v.Policy + ": " + v.Message,
			Text: text.String()})
	}
	return nil
}

func (w *world) proof(p report.Proof) (*Proof, error) {
	var text bytes.Buffer
	about := report.Options{Types: w.types, Color: true}
	if err := report.WriteProofs("text", &text, about, []report.Proof{p}); err != nil {
		return nil, err
	}
	out := &Proof{Answer: report.AnswerWord(p.Answer), Claim: p.Claim, Text: text.String()}
	if p.Found == nil {
		return out, nil
	}
	out.Example = w.example(p.Found)
	return out, nil
}

// example returns the request of a counterexample.
func (w *world) example(found *prove.Example) *Example {
	r := found.Request
	write := func(object map[string]any) string {
		if object == nil {
			return ""
		}
		return rewrite.YAML(object, w.types.Type(tree.Object(object).Kind()))
	}
	out := &Example{Groups: []string{}}
	if r.SubResource != "" || r.Operation != celgate.Create && r.Operation != celgate.Update {
		out.Objects = write(reviewOf(r))
	} else {
		out.Objects, out.Old = write(withName(r, r.Object)), write(withName(r, r.OldObject))
		out.Operation, out.DryRun = string(r.Operation), r.DryRun
		if !r.UserAssumed {
			out.User, out.Groups = r.UserInfo.Username, append(out.Groups, r.UserInfo.Groups...)
		}
	}
	var state []string
	for _, d := range manifest.Definitions(w.state) {
		if d.Position().File == StateFile { // those in other texts stay there
			state = append(state, write(d.Object))
		}
	}
	for _, object := range found.Objects {
		state = append(state, write(object))
	}
	out.State = strings.Join(state, "---\n")
	return out
}

// withName returns an object with the name and namespace of its request.
func withName(r *celgate.Request, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	o, own := tree.Object(object), map[string]any{}
	if r.Name != "" && o.Metadata()["name"] == nil {
		own["name"] = r.Name
	}
	if r.Namespace != "" && r.Kind != requests.Namespace {
		own["namespace"] = r.Namespace
	}
	return o.WithMetadata(o.Metadata().With(own))
}

// reviewOf returns a request as an AdmissionReview.
func reviewOf(r *celgate.Request) map[string]any {
	request := map[string]any{
		"uid":         cmp.Or(r.UID, "1"),
		"kind":        map[string]any{"group": r.Kind.Group, "version": r.Kind.Version, "kind": r.Kind.Kind},
		"resource":    map[string]any{"group": r.Resource.Group, "version": r.Resource.Version, "resource": r.Resource.Resource},
		"subResource": r.SubResource, "operation": string(r.Operation), "name": r.Name, "namespace": r.Namespace,
		"dryRun": r.DryRun,
	}
	groups := []any{}
	for _, group := range r.UserInfo.Groups {
		groups = append(groups, group)
	}
	request["userInfo"] = map[string]any{"username": r.UserInfo.Username, "groups": groups}
	for name, object := range map[string]map[string]any{"object": r.Object, "oldObject": r.OldObject, "options": r.Options} {
		if object != nil {
			request[name] = object
		}
	}
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
}
