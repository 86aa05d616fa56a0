package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var libraries = []*Analyzer{
	{
		Code: "CG017", Name: "unused-import", Severity: Warning,
		Title: "the policy imports a library without using it",
		Text: `While a library is missing or invalid, every policy that imports it fails, and its failurePolicy decides.
An import that is not used has this risk without a benefit. The same holds for a library that imports another one.`,
		Before: "imports: [images, names]\nvalidations:\n- expression: images.all.size() > 0",
		After:  "imports: [images]\nvalidations:\n- expression: images.all.size() > 0",
		run:    unusedImports,
	},
	{
		Code: "CG018", Name: "unused-part", Severity: Note,
		Title: "a part of a library is unused in the files",
		Text: `Neither a policy nor another part that is used uses this variable, function or scope. If other files do not use it
either, it can be removed. Libraries that the policies in the files do not import are not reported.`,
		run: unusedParts,
	},
}

// checkLibraries reports the mistakes in libraries.
func (p *pass) checkLibraries() {
	for _, l := range p.Set.Libraries {
		for _, err := range compile.Library(p.envs, l) {
			for _, d := range problemsOf(err, l.At(err.Field), l.Locate) {
				d.Ref, d.Suggestion = l.Ref(), suggestion(wording.Read(d.Message))
				p.report(d)
			}
		}
	}
}

// usesOf returns the full names of the parts of libraries that expressions and scopes name.
func usesOf(expressions []policy.Expr, scopes []string, imports []string) map[string]bool {
	uses := map[string]bool{}
	for _, x := range expressions {
		for _, library := range imports {
			for name := range inline.NamesOf(x.Src, library) {
				uses[library+"."+name] = true
			}
		}
	}
	for _, text := range scopes {
		if library, _, ok := strings.Cut(text, "."); ok && slices.Contains(imports, library) {
			uses[text] = true
		}
	}
	return uses
}

// usesOfPolicy are those of a policy itself.
func usesOfPolicy(p *policy.Policy) map[string]bool {
	var expressions []policy.Expr
	for x := range p.Source().Expressions() {
		expressions = append(expressions, x.Expr)
	}
	var scopes []string
	for x := range p.Scopes() {
		scopes = append(scopes, x.Src)
	}
	return usesOf(expressions, scopes, p.Imports)
}

// partsOf returns the expressions of the parts of a library by their full names. A scope has none.
func partsOf(l *policy.Library) map[string]policy.Expr {
	parts := map[string]policy.Expr{}
	for _, v := range l.Variables {
		parts[l.Name+"."+v.Name] = v.Expr
	}
	for _, f := range l.Functions {
		parts[l.Name+"."+f.Name] = f.Expr
	}
	for _, s := range l.Scopes {
		parts[l.Name+"."+s.Name] = policy.Expr{}
	}
	return parts
}

func unusedImports(p *pass) {
	find := func(imports []string, uses map[string]bool, report func(path, suggestion, format string, args ...any)) {
		for i, name := range imports {
			used := p.Set.Library(policy.Ref{Kind: policy.LibraryKind, Name: name}) == nil // CG001 reports it
			for full := range uses {
				used = used || strings.HasPrefix(full, name+".")
			}
			if !used {
				path := field.NewPath("spec", "imports").Index(i).String()
				report(path, "remove it", "the imported library %s is not used", name)
			}
		}
	}
	for _, f := range p.facts {
		find(f.Imports, usesOfPolicy(f.Policy), func(path, suggestion, format string, args ...any) {
			p.reportField(f.Policy, path, suggestion, format, args...)
		})
	}
	for _, l := range p.Set.Libraries {
		expressions := slices.Collect(maps.Values(partsOf(l)))
		find(l.Imports, usesOf(expressions, nil, l.Imports), func(path, suggestion, format string, args ...any) {
			p.reportLibrary(l, path, suggestion, format, args...)
		})
	}
}

func unusedParts(p *pass) {
	uses, imported, all := map[string]bool{}, map[string]bool{}, map[string]policy.Expr{}
	imports := map[string][]string{} // of the library that has the part
	for _, f := range p.facts {
		maps.Copy(uses, usesOfPolicy(f.Policy))
		for _, l := range f.Libraries() {
			imported[l.Name] = true
		}
	}
	for _, l := range p.Set.Libraries {
		for name, x := range partsOf(l) {
			all[name], imports[name] = x, append(slices.Clone(l.Imports), l.Name)
		}
	}
	for open := slices.Collect(maps.Keys(uses)); len(open) > 0; {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		for used := range usesOf([]policy.Expr{all[name]}, nil, imports[name]) {
			if !uses[used] {
				uses[used] = true
				open = append(open, used)
			}
		}
	}
	for _, l := range p.Set.Libraries {
		if !imported[l.Name] {
			continue
		}
		unused := func(list string, i int, name string) {
			if full := l.Name + "." + name; !uses[full] {
				p.reportLibrary(l, field.NewPath("spec", list).Index(i).Child("name").String(), "", "%s is not used", full)
			}
		}
		for i, v := range l.Variables {
			unused("variables", i, v.Name)
		}
		for i, f := range l.Functions {
			unused("functions", i, f.Name)
		}
		for i, s := range l.Scopes {
			unused("scopes", i, s.Name)
		}
	}
}
