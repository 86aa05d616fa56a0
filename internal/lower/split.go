package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
)

// A split is the native policies for the validations of a policy. Each has one failurePolicy, and a binding has the
// same actions for all of its rules. Their number depends on the bindings.
type split struct {
	*policy.Policy
	l        *Lowering
	at       place
	sure     map[int]bool // rules that cannot fail
	matches  bool         // match conditions cannot fail
	parts    []*part      // the first has the name of the policy
	uses     map[*policy.Binding][]use
	refused  map[*policy.Binding][]Refusal // with fields of the binding
	refusals []Refusal                     // with fields of the policy
}

// A part is one native policy.
type part struct {
	failure  policy.FailurePolicy
	rules    []int // in the order of evaluation
	guards   []int // guards in front of the rules and audit annotations
	onlyErrs bool  // the rules only report that they fail
	annotate bool  // it has the audit annotations
}

// A use is a binding of one part.
type use struct {
	part    *part
	ending  string // of the names of both
	actions []policy.Action
	allow   bool // a missing param is ignored
}

// A splitKey identifies a split by policy and place.
type splitKey struct {
	policy *policy.Policy
	at     place
}

// split returns the split of the validations of a policy at a place, computed once.
func (l *Lowering) split(p *policy.Policy, at place) *split {
	key := splitKey{p, at}
	if s := l.splits[key]; s != nil {
		return s
	}
	s := &split{Policy: p, l: l, at: at, sure: map[int]bool{}, uses: map[*policy.Binding][]use{},
		refused: map[*policy.Binding][]Refusal{}}
	l.splits[key] = s
	s.judge()
	var bindings []*policy.Binding
	for b := range l.set.EachBinding() {
		if _, ok := at.matchOf(nil, "", b.Scope()); ok && b.Names(p.Ref()) {
			bindings = append(bindings, b)
		}
	}
	if len(bindings) == 0 && l.binds(p) {
		return s
	}
	if len(bindings) == 0 { // assume a typical one
		if s.Combine == policy.CombineAny {
			s.refusals = append(s.refusals, Refusal{"spec.combine", "the bindings of the policy are not among the files, but " +
				"the meaning of combine depends on them"})
		}
		bindings = []*policy.Binding{{Kind: policy.Admission, Actions: []policy.Action{policy.Deny}}}
	}
	s.combine(bindings)
	plans := make([]*plan, len(bindings))
	for i, b := range bindings {
		plans[i] = s.plan(b)
	}
	s.annotate(plans)
	for _, made := range plans {
		if s.refused[made.binding] = made.refusals; len(made.refusals) > 0 {
			continue
		}
		for _, u := range made.uses {
			u.part = s.addPart(u.part)
			u.ending = s.ending(u.part)
			s.uses[made.binding] = append(s.uses[made.binding], u)
		}
	}
	return s
}

// judge finds the rules and match conditions that cannot fail.
func (s *split) judge() {
	for i, x := range s.Validations {
		s.sure[i] = x.Scope.IsZero() && s.l.isSure(s.Policy, s.at, x.Expr)
	}
	s.matches = !slices.ContainsFunc(s.MatchConditions, func(c policy.NamedExpr) bool {
		return !s.l.isSure(s.Policy, s.at, c.Expr)
	})
}

// addPart adds a part for a binding, or returns the equal one.
func (s *split) addPart(p *part) *part {
	for _, known := range s.parts {
		if known.equals(p) {
			return known
		}
	}
	s.parts = append(s.parts, p)
	return p
}

func (p *part) equals(q *part) bool {
	return p.failure == q.failure && p.onlyErrs == q.onlyErrs && p.annotate == q.annotate &&
		slices.Equal(p.rules, q.rules) && slices.Equal(p.guards, q.guards)
}

// ending returns the ending of the names of a part and of its bindings.
func (s *split) ending(p *part) string {
	if i := slices.Index(s.parts, p); i > 0 {
		return fmt.Sprintf("%s-%d", s.at.ending, i+1)
	}
	return s.at.ending
}

// combine refuses combine: Any if it may differ from All: if a request may satisfy one binding and fail another.
func (s *split) combine(bindings []*policy.Binding) {
	if s.Combine != policy.CombineAny {
		return
	}
	for i, a := range bindings {
		for _, b := range bindings[:i] {
			if !areApart(a, b) && (s.ParamKind != nil || levelOf(a) != levelOf(b)) {
				s.refusals = append(s.refusals, Refusal{"spec.combine", fmt.Sprintf("kube-apiserver requires all bindings to be "+
					"satisfied, and the bindings %s and %s may match the same request with different params or levels",
					b.Name, a.Name)})
				return
			}
		}
	}
}

func levelOf(b *policy.Binding) int {
	if b.Enforcement == nil {
		return 0
	}
	return b.Enforcement.Level
}

// areApart reports whether a request never matches both of two bindings, because they name different namespaces.
func areApart(a, b *policy.Binding) bool {
	of, other := namesOf(a), namesOf(b)
	isShared := func(name string) bool { return slices.Contains(other, name) }
	return of != nil && other != nil && !slices.ContainsFunc(of, isShared)
}

// namesOf returns the namespaces of a binding; nil if it does not list them by name.
func namesOf(b *policy.Binding) []string {
	scope := b.Scope()
	if scope == nil || slices.ContainsFunc(scope.Namespaces, policy.IsPattern) {
		return nil
	}
	return scope.Namespaces
}

// A plan is the native form of one binding.
type plan struct {
	binding  *policy.Binding
	uses     []use
	failing  map[int]int // rules, and the use that reports that they are false, an index of uses
	erring   map[int]int // rules, and the use that reports that they fail
	guards   []int       // guards that the binding reaches
	refusals []Refusal
}

func (m *plan) refuse(field, format string, args ...any) {
	r := Refusal{"spec." + field, fmt.Sprintf(format, args...)}
	if !slices.Contains(m.refusals, r) {
		m.refusals = append(m.refusals, r)
	}
}

// place adds a rule to the part with the given enforcement, and returns the index of its use.
func (m *plan) place(rule int, failure policy.FailurePolicy, actions []policy.Action, onlyErrs bool) int {
	i := slices.IndexFunc(m.uses, func(u use) bool {
		return u.part.failure == failure && u.part.onlyErrs == onlyErrs && slices.Equal(u.actions, actions)
	})
	if i < 0 {
		i = len(m.uses)
		m.uses = append(m.uses, use{part: &part{failure: failure, onlyErrs: onlyErrs}, actions: actions})
	}
	m.uses[i].part.rules = append(m.uses[i].part.rules, rule)
	return i
}

// weaken returns the actions of a binding for a rule about templates, from those about a Pod.
func (s *split) weaken(actions []policy.Action) []policy.Action {
	if s.at.path == "" {
		return actions
	}
	return s.TemplateActions(actions)
}

// plan places the rules that a binding reaches.
func (s *split) plan(b *policy.Binding) *plan {
	m := &plan{binding: b, failing: map[int]int{}, erring: map[int]int{}}
	for _, i := range s.Turns() {
		x := &s.Validations[i]
		if !b.Reaches(x) {
			continue
		}
		if x.Guard {
			m.guards = append(m.guards, i)
		}
		failure, actions, onError := s.FailurePolicyOf(x), s.weaken(b.ActionsOn(x)), s.weaken(b.ActionsOnError(x))
		if failure == policy.Fail && !sameActions(actions, onError) && !s.sure[i] {
			m.failing[i] = m.place(i, policy.Ignore, actions, false)
			m.erring[i] = m.place(i, policy.Fail, onError, true)
			continue
		}
		m.failing[i] = m.place(i, failure, actions, false)
		if failure == policy.Fail {
			m.erring[i] = m.failing[i]
		}
	}
	for i := range m.uses {
		p := m.uses[i].part
		for _, g := range m.guards {
			if slices.ContainsFunc(p.rules, func(r int) bool { return s.isBehind(r, g) }) {
				p.guards = append(p.guards, g)
			}
		}
	}
	s.checkPolicy(m)
	s.checkGuards(m)
	return m
}

// isBehind reports whether a rule is evaluated only if a guard is satisfied, both reached by a binding.
func (s *split) isBehind(rule, guard int) bool {
	return rule != guard && (!s.Validations[rule].Guard || rule > guard)
}

func sameActions(a, b []policy.Action) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x policy.Action) bool { return !slices.Contains(b, x) })
}

// onlyDenies reports whether actions report only the first violation of a request.
func onlyDenies(actions []policy.Action) bool {
	return slices.Equal(actions, []policy.Action{policy.Deny})
}

// checkPolicy checks errors outside of rules: of match conditions, and missing params. The failurePolicy of each part
// applies to them; in the dialect that of the policy does.
func (s *split) checkPolicy(m *plan) {
	b := m.binding
	fails := slices.IndexFunc(m.uses, func(u use) bool { return u.part.failure == policy.Fail })
	missing := s.ParamKind != nil && b.ParamRef != nil && b.ParamRef.NotFoundAction == policy.NotFoundDeny
	if s.FailurePolicy == policy.Fail {
		if fails < 0 && (!s.matches || s.ParamKind != nil || len(s.AuditAnnotations) > 0) || len(m.uses) == 0 {
			m.uses = append(m.uses, use{part: &part{failure: policy.Fail}, actions: s.weaken(b.ActionsOnError(nil))})
		}
		unserved := s.ParamKind != nil && !s.l.serves(s.ParamKind)
		if on := b.ActionsOnMisconfiguration(); !onlyDenies(on) && (missing || unserved) {
			m.refuse("enforcement.onError",
				"kube-apiserver denies if a param or its kind is missing, and does not support another action")
		}
		s.matchErrors(m)
		return
	}
	if len(m.uses) == 0 {
		m.uses = append(m.uses, use{part: &part{failure: policy.Ignore}, actions: b.Actions})
	}
	if fails < 0 {
		return
	}
	i := s.firstWith(policy.Fail)
	switch {
	case !s.matches:
		m.refuse(policyField, "validations[%d].failurePolicy is Fail and that of the policy Ignore: a match condition that "+
			"fails would deny, because kube-apiserver has one failurePolicy for both; write conditions that cannot fail", i)
	case s.ParamKind != nil && !s.l.serves(s.ParamKind):
		m.refuse(policyField, "validations[%d].failurePolicy is Fail and that of the policy Ignore: while the kind %s is not served, "+
			"kube-apiserver would deny", i, s.ParamKind.Kind)
	case missing:
		for i := range m.uses {
			m.uses[i].allow = true
		}
	}
}

func (s *split) firstWith(failure policy.FailurePolicy) int {
	return slices.IndexFunc(s.Validations, func(x policy.Validation) bool { return s.FailurePolicyOf(&x) == failure })
}

// policyField is the field of a binding that names its policies.
const policyField = "policyName"

// matchErrors checks the reports of a failing match condition: one violation of the binding, and one of each part with
// failurePolicy Fail. Several denials are reported as one.
func (s *split) matchErrors(m *plan) {
	if s.matches {
		return
	}
	want := s.weaken(m.binding.ActionsOnError(nil))
	told := 0
	for _, u := range m.uses {
		switch {
		case u.part.failure == policy.Ignore, onlyDenies(u.actions) && slices.Contains(want, policy.Deny):
		case sameActions(u.actions, want):
			told++
		default:
			told = len(m.uses) + 1
		}
	}
	fails := slices.ContainsFunc(m.uses, func(u use) bool { return u.part.failure == policy.Fail })
	if onlyDenies(want) && told == 0 && fails {
		return
	}
	if told != 1 {
		m.refuse("validationActions", "rules of policy %s are enforced in several ways, so that it becomes several native "+
			"policies: if a match condition fails, each of them reports it; write conditions that cannot fail", s.Name)
	}
}

// checkGuards refuses guards whose errors would be reported more than once: a native rule fails if a guard in front of
// it fails.
func (s *split) checkGuards(m *plan) {
	for _, g := range m.guards {
		if s.sure[g] {
			continue
		}
		for _, r := range s.Turns() {
			at, tells := m.erring[r]
			own, told := m.erring[g]
			if !tells || !s.isBehind(r, g) || told && at == own && onlyDenies(m.uses[at].actions) {
				continue
			}
			m.refuse("validationActions", "validation %s of policy %s is a guard that may fail, and kube-apiserver would report "+
				"that for each rule behind it: write a guard that cannot fail, or let its errors and theirs be ignored or have "+
				"only the action Deny",
				s.nameOf(g), s.Name)
			return
		}
	}
}

func (s *split) nameOf(rule int) string {
	if name := s.Validations[rule].Name; name != "" {
		return name
	}
	return fmt.Sprint(rule)
}

// annotate chooses the part with the audit annotations: the same for all bindings, because one annotation has the
// values of all of them.
func (s *split) annotate(plans []*plan) {
	if len(s.AuditAnnotations) == 0 {
		return
	}
	carriers := make([]int, len(plans))
	var first *part
	same := true
	for i, m := range plans {
		carriers[i] = slices.IndexFunc(m.uses, func(u use) bool {
			return u.part.failure == s.FailurePolicy && !u.part.onlyErrs
		})
		if carriers[i] < 0 {
			same = false
			continue
		}
		with := *m.uses[carriers[i]].part
		with.guards = m.guards
		if first == nil {
			first = &with
		}
		same = same && first.equals(&with)
	}
	for i, m := range plans {
		if !same {
			carriers[i] = len(m.uses)
			actions := s.weaken(m.binding.ActionsOnError(nil))
			m.uses = append(m.uses, use{part: &part{failure: s.FailurePolicy}, actions: actions})
			s.matchErrors(m)
		}
		u := &m.uses[carriers[i]]
		u.part.annotate, u.part.guards = true, m.guards
		s.checkAnnotations(m, carriers[i])
		if !slices.Equal(m.guards, plans[0].guards) {
			m.refuse("enforcement.level", "policy %s has audit annotations, which one native policy must have for all "+
				"bindings, and not all bindings reach its guards", s.Name)
		}
	}
}

// checkAnnotations refuses audit annotations whose errors would have another effect than in the dialect.
func (s *split) checkAnnotations(m *plan, carrier int) {
	if s.FailurePolicy == policy.Fail && !onlyDenies(m.binding.ActionsOnMisconfiguration()) {
		m.refuse("enforcement.onError", "policy %s has audit annotations, and if one fails kube-apiserver denies the request", s.Name)
	}
	for _, g := range m.guards {
		own, told := m.erring[g]
		switch {
		case s.l.mentions(s.Policy, s.Validations[g].Expr, "authorizer", "namespaceObject"):
			m.refuse(policyField, "policy %s has audit annotations behind the guard %s, and annotations in kube-apiserver have "+
				"another authorizer and namespaceObject", s.Name, s.nameOf(g))
		case s.sure[g] || s.FailurePolicy == policy.Ignore:
		case !told || own != carrier || !slices.Contains(m.uses[own].actions, policy.Deny):
			m.refuse("validationActions", "policy %s has audit annotations behind the guard %s, which may fail: kube-apiserver "+
				"would deny the request", s.Name, s.nameOf(g))
		}
	}
}

// spec returns the native spec of a part.
func (s *split) spec(p *part, spec map[string]any) (map[string]any, []Refusal) {
	var refusals []Refusal
	of := without(spec, append([]string{"mutations", "reinvocationPolicy"}, ownFields...)...)
	if p.failure != s.FailurePolicy {
		of["failurePolicy"] = string(p.failure)
	}
	names := s.guardNames(p)
	if len(names) > 0 {
		declared, _ := of["variables"].([]any)
		declared = slices.Clone(declared)
		for _, g := range p.guards {
			declared = append(declared, map[string]any{"name": names[g], "expression": s.Validations[g].Expr.Code()})
		}
		of["variables"] = declared
	}
	move := mover{s.l, s.at, deletes(s.Policy)}
	refusals = append(refusals, move.moveAll(of, "variables", "expression")...)
	written, _ := of["validations"].([]any)
	if _, ok := of["validations"]; ok || len(p.rules) == 0 && !p.annotate {
		var rules []any
		for _, i := range p.rules {
			rule, refused := s.rule(p, i, written[i], names)
			rules, refusals = append(rules, rule), append(refusals, refused...)
		}
		if len(rules) == 0 && !p.annotate {
			rules = []any{map[string]any{"expression": "true"}}
		}
		if of["validations"] = rules; len(rules) == 0 {
			delete(of, "validations")
		}
	}
	if given, _ := of["auditAnnotations"].([]any); !p.annotate {
		delete(of, "auditAnnotations")
	} else if len(p.guards) > 0 {
		var annotations []any
		for i, item := range given {
			a, _ := item.(map[string]any)
			annotations = append(annotations, setMember(a, "valueExpression",
				guardExpr(p.guards, names, s.AuditAnnotations[i].Expr.Code(), `""`)))
		}
		of["auditAnnotations"] = annotations
	}
	refusals = append(refusals, move.moveAll(of, "auditAnnotations", "valueExpression")...)
	if s.at.path != "" {
		refusals = append(refusals, move.moveAll(of, "validations", "expression")...)
		refusals = append(refusals, move.moveAll(of, "validations", "messageExpression")...)
		refusals = append(refusals, move.moveAll(of, "matchConditions", "expression")...)
		given, _ := of["matchConditions"].([]any)
		of["matchConditions"] = append([]any{move.condition()}, given...)
	}
	return of, refusals
}

// rule returns the native form of a rule in a part.
func (s *split) rule(p *part, i int, written any, names map[int]string) (map[string]any, []Refusal) {
	members, _ := written.(map[string]any)
	members = without(members, "name", "guard", "level", "maxEnforcement", "failurePolicy")
	x := &s.Validations[i]
	var guards []int
	for _, g := range p.guards {
		if s.isBehind(i, g) {
			guards = append(guards, g)
		}
	}
	src := x.Expr.Code()
	if p.onlyErrs {
		src = parenthesise(src) + " ? true : true"
	}
	if len(guards) > 0 {
		src = guardExpr(guards, names, src, "true")
	}
	if src == x.Expr.Code() && s.at.path == "" {
		return members, nil
	}
	members["expression"] = src
	text := strings.TrimSpace(x.Expr.Src)
	switch {
	case p.onlyErrs:
		delete(members, "message")
		delete(members, "messageExpression")
		delete(members, "reason")
	case s.at.path != "" && (x.Message != "" || !strings.Contains(text, "\n")):
		members["message"] = mover{at: s.at}.messageOf(x)
	case x.Message == "" && strings.Contains(text, "\n"):
		return members, []Refusal{{fmt.Sprintf("spec.validations[%d].message", i), "the default message would contain another " +
			"expression, because the rule is behind a guard or for templates: write a message"}}
	case x.Message == "":
		members["message"] = "failed expression: " + text
	}
	return members, nil
}

// guardNames returns the names of the variables for the guards of a part.
func (s *split) guardNames(p *part) map[int]string {
	names := map[int]string{}
	n := 0
	for _, g := range p.guards {
		name := ""
		for taken := true; taken; {
			n++
			name = fmt.Sprintf("guard%d", n)
			taken = slices.ContainsFunc(s.Variables, func(v policy.NamedExpr) bool { return v.Name == name })
		}
		names[g] = name
	}
	return names
}

// guardExpr returns an expression that evaluates src only if the guards are satisfied, and other otherwise.
func guardExpr(guards []int, names map[int]string, src, other string) string {
	var all []string
	for _, g := range guards {
		all = append(all, "variables."+names[g])
	}
	return strings.Join(all, " && ") + " ? " + parenthesise(src) + " : " + other
}

// parenthesise puts an expression in parentheses. A comment extends to the end of its line.
func parenthesise(src string) string {
	if strings.Contains(src, "//") {
		return "(" + src + "\n)"
	}
	return "(" + src + ")"
}

func setMember(members map[string]any, name string, value any) map[string]any {
	out := without(members)
	out[name] = value
	return out
}
