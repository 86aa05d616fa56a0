package check

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/parallel"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A subject is the shared input of all analyzers: the policies, and facts about them that are determined once.
type subject struct {
	Input
	envs  *celenv.Set
	older []func() (*celenv.Set, error) // the environments of the minors before, by their numbers
	codes map[string]bool               // of all analyzers
	facts []*facts                      // sorted by kind and name
	err   error                         // a defect of this program, or the end of the context
	ctx   context.Context

	disorders map[[2]*facts][]string
	memory
}

// A memory caches results that policies share. Each processor has its own.
type memory struct {
	typer        typer
	construction *typed.Checker
	presences    map[presence]bool
}

func newMemory(types *schema.Registry, envs *celenv.Set) memory {
	return memory{newTyper(types), typed.NewChecker(envs), map[presence]bool{}}
}

// facts are what is known about one policy.
type facts struct {
	*policy.Policy
	bindings []*policy.Binding
	exprs    []*expression
	targets  []target // the kinds that it matches

	// The following are expensive, and computed on demand: see [subject.each].
	typing   map[*expression]*typings
	costs    []Cost // estimates, computed with typing
	refusals func() field.ErrorList
	trials   *trials

	stored *policy.Policy  // the policy, marked as stored
	engine *celgate.Engine // the last engine that compiled it, during its trials
}

// An expression is one expression of a policy with its syntax tree.
type expression struct {
	policy.Part
	ast    *ast.AST // nil if it does not parse
	reads  *effects.Reads
	before []*expression // the variables that it uses, and those that they use

	parsed [2]*cel.Ast // by dialect, during type-checking; nil: not yet, or it does not parse

	spans map[int64][2]int       // by node, filled on demand
	paths map[int][]effects.Path // selected fields by offset, filled on demand
}

func newSubject(ctx context.Context, in Input, envs *celenv.Set) *subject {
	s := &subject{
		Input: in, envs: envs, ctx: ctx, codes: map[string]bool{}, disorders: map[[2]*facts][]string{},
		older: environmentsBefore(in.KubeVersion), memory: newMemory(in.Types, envs),
	}
	for _, p := range in.Set.Policies {
		stored := *p
		stored.Stored = true
		f := &facts{Policy: p, stored: &stored}
		for b := range in.Set.EachBinding() {
			if b.Binds(p) {
				f.bindings = append(f.bindings, b)
			}
		}
		f.refusals = sync.OnceValue(func() field.ErrorList { return refusals(envs, p) })
		s.facts = append(s.facts, f)
	}
	s.each(func(s *subject, f *facts) {
		f.targets = s.targetsOf(f.MatchConstraints)
		s.parse(f)
	})
	slices.SortStableFunc(s.facts, func(a, b *facts) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return s
}

// each calls do for every policy, on all processors. An expensive fact that is needed of one policy is needed of the
// others too.
func (s *subject) each(do func(*subject, *facts)) {
	var workers []*subject
	parallel.Each(len(s.facts), func() func(int) {
		w := *s
		w.memory = newMemory(s.Types, s.envs)
		workers = append(workers, &w)
		return func(i int) { do(&w, s.facts[i]) }
	})
	for _, w := range workers {
		s.err = cmp.Or(s.err, w.err)
	}
}

// parse fills in the expressions of a policy.
func (s *subject) parse(f *facts) {
	scope := s.envs.Scope(celenv.Run, false)
	defer scope.Close()
	own := f.Kind == policy.Admission
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true, Patch: true, Dialect: own, Extended: own,
		Objects: own})
	if err != nil {
		s.err = err
		return
	}
	results := map[string]effects.Result{}
	known := map[string]*expression{}
	for x := range f.Expressions() {
		if strings.TrimSpace(x.Src) == "" {
			continue
		}
		e := &expression{Part: x}
		parsed, issues := celenv.ParseOwn(env, celenv.Declared{}, e.Expr)
		if issues.Err() == nil {
			e.ast = parsed.NativeRep()
			e.reads = effects.ReadsOf(e.ast.Expr(), results)
			for _, name := range e.reads.Variables {
				if v := known[name]; v != nil {
					e.before = append(append(e.before, v.before...), v)
				}
			}
			if e.Use == policy.UseVariable {
				results[e.Name] = e.reads.Result(e.ast.Expr())
				known[e.Name] = e
			}
		}
		f.exprs = append(f.exprs, e)
	}
}

// parsedExpressions yields the expressions of f that have a syntax tree.
func (f *facts) parsedExpressions() iter.Seq[*expression] {
	return func(yield func(*expression) bool) {
		for _, e := range f.exprs {
			if e.ast != nil && !yield(e) {
				return
			}
		}
	}
}

// span returns the range of bytes of the node with an id: a name, an operator or a literal.
func (e *expression) span(id int64) (from, to int) {
	if known, ok := e.spans[id]; ok {
		return known[0], known[1]
	}
	to = len(e.Src)
	if r, ok := e.ast.SourceInfo().GetOffsetRange(id); ok {
		from = compile.ByteOffset(e.Src, int(r.Start))
		to = from + token(e.Src[from:])
	}
	if e.spans == nil {
		e.spans = map[int64][2]int{}
	}
	e.spans[id] = [2]int{from, to}
	return from, to
}

// token returns the length of the word or string that s begins with; a selection is its dot and its name.
func token(s string) int {
	n := 0
	switch {
	case s == "":
		return 0
	case strings.HasPrefix(s, ".?"):
		n = 2
	case len(s) > 1 && strings.ContainsRune("=!<>&|", rune(s[0])) && strings.ContainsRune("=&|", rune(s[1])):
		return 2
	case s[0] == '.':
		n = 1
	case s[0] == '"' || s[0] == '\'':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case s[0]:
				return i + 1
			}
		}
		return len(s)
	}
	for n < len(s) && (s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' &&
		s[n] <= 'Z') {
		n++
	}
	return max(n, 1)
}

// diagnosticAt returns a diagnostic about a node of an expression.
func (f *facts) diagnosticAt(e *expression, id int64) Diagnostic {
	from, to := e.span(id)
	return diagnosticIn(f.Policy, e.Expr, from, to)
}

// guards reports whether e, a variable that it uses, the condition of its mutation or a match condition tests whether
// path exists.
func (f *facts) guards(e *expression, p effects.Path) bool {
	if e.reads.Guards(p) {
		return true
	}
	for _, v := range e.before {
		if v.reads.Guards(p) {
			return true
		}
	}
	if e.Use == policy.UseMatchCondition {
		return false
	}
	for c := range f.parsedExpressions() {
		if c.Use == policy.UseMatchCondition && c.reads.Guards(p) ||
			c.Use == policy.UseCondition && e.Use.Mutates() && c.Index == e.Index && f.guards(c, p) {
			return true
		}
	}
	return false
}

// constant returns the value of a literal node; nil for other nodes.
func constant(e ast.Expr) any {
	if e == nil || e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

// A target is a kind that a policy matches.
type target struct {
	kind        schema.GroupVersionKind
	resource    schema.GroupVersionResource
	subresource string
	namespaced  bool
	named       bool // a rule names it without a wildcard
	custom      bool
	typ         *shape.Type
}

// targetsOf returns the kinds that rules match, each once, sorted.
func (s *subject) targetsOf(m *policy.MatchResources) []target {
	if m == nil {
		return nil
	}
	var all []target
	seen := map[schema.GroupVersionKind]int{}
	for _, r := range s.Types.Resources() {
		if r.NotServed {
			continue
		}
		for sub := -1; sub < len(r.Subresources); sub++ {
			name, kind := "", r.GroupVersionKind()
			if sub >= 0 {
				name, kind = r.Subresources[sub].Name, r.Subresources[sub].Kind
			}
			for _, rule := range m.ResourceRules {
				if !typed.Covers(rule, r, name) || r.OffByDefault && !slices.Contains(rule.APIVersions, r.Version) {
					continue
				}
				t := target{
					kind: kind, resource: r.GroupVersionResource, subresource: name, namespaced: r.Namespaced,
					named: !slices.Contains(rule.APIGroups, "*") && !slices.Contains(rule.APIVersions, "*") &&
						(slices.Contains(rule.Resources, resourceName(r, name)) || len(rule.Kinds) > 0),
					custom: r.Definition != nil, typ: s.Types.Type(kind),
				}
				if i, ok := seen[kind]; ok {
					all[i].named = all[i].named || t.named
					continue
				}
				seen[kind] = len(all)
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(strings.Compare(a.kind.Group, b.kind.Group), strings.Compare(a.kind.Version, b.kind.Version),
			strings.Compare(a.kind.Kind, b.kind.Kind))
	})
	return all
}

// operations returns the operations that the policy's rules match.
func (f *facts) operations() map[string]bool {
	all := map[string]bool{}
	if f.MatchConstraints == nil {
		return all
	}
	for _, r := range f.MatchConstraints.ResourceRules {
		for _, op := range r.Operations {
			if op == "*" {
				all["CREATE"], all["UPDATE"], all["CONNECT"] = true, true, true
				if f.Validates() {
					all["DELETE"] = true
				}
			}
			all[op] = true
		}
	}
	return all
}

// A dialect is a set of declared names: expressions are parsed once for each.
type dialect int

const (
	running  dialect = iota // every name that a policy may use
	checking                // the names that the server's type checker declares
)

// forget frees caches that are cheap to fill again.
func (e *expression) forget() { e.parsed, e.spans, e.paths = [2]*cel.Ast{}, nil, nil }

// check type-checks an expression in an environment of a dialect.
func (e *expression) check(env *cel.Env, d celenv.Declared, in dialect) (*cel.Ast, *cel.Issues) {
	if e.parsed[in] == nil {
		parsed, issues := celenv.ParseOwn(env, d, e.Expr)
		if len(issues.Errors()) > 0 {
			return nil, issues
		}
		e.parsed[in] = parsed
	}
	return celenv.Check(env, e.parsed[in])
}

// problems converts the issues of a text to problems with offsets.
func problems(issues *cel.Issues, src string) []problem {
	var all []problem
	lines := lineOffsets(src)
	for _, e := range issues.Errors() {
		line := e.Location.Line()
		offset := 0
		if line > 0 && line <= len(lines) {
			start := lines[line-1]
			offset = start + compile.ByteOffset(src[start:], e.Location.Column())
		}
		all = append(all, problem{min(offset, len(src)), wording.TrimContainer(e.Message)})
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cmp.Compare(a.offset, b.offset) })
	return all
}

// A problem is a message of the type checker, with its offset.
type problem struct {
	offset  int
	message string
}

func lineOffsets(s string) []int {
	all := []int{0}
	for i := range len(s) {
		if s[i] == '\n' {
			all = append(all, i+1)
		}
	}
	return all
}

func resourceName(r *schema.Resource, subresource string) string {
	if subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + subresource
}
