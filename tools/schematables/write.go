package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// write writes the index and one table per Go package, as package schema reads them.
func write(dir string, index []byte, w *walk) error {
	packages := map[string][]*named{}
	for t, n := range w.types {
		packages[t.PkgPath()] = append(packages[t.PkgPath()], n)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "index"), index, 0o644); err != nil {
		return err
	}
	for path, types := range packages {
		slices.SortFunc(types, func(a, b *named) int { return strings.Compare(a.typ.Name(), b.typ.Name()) })
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(path, "/", "_")), table(path, types),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// index lists the disabled features, and the groups with their kinds and resources. Those of legacy are served although
// their versions are no longer served by default.
func index(off []string, groups []*group, legacy map[string]bool) []byte {
	var b bytes.Buffer
	for _, feature := range off {
		fmt.Fprintf(&b, "off %s\n", feature)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "group %s\n", g.GroupVersion)
		for _, k := range g.kinds {
			fmt.Fprintf(&b, "kind %s %s\n", k.name, k.typ)
		}
		for _, r := range g.resources {
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			off := ""
			if preRelease.MatchString(g.Version) && !legacy[g.Version+"/"+r.Name] {
				off = " off"
			}
			fmt.Fprintf(&b, "resource %s %s %s%s\n", r.Name, r.Kind, scope, off)
			slices.SortFunc(r.subresources, func(a,
				b metav1.APIResource) int {
				return strings.Compare(a.Name, b.Name)
			})
			for _, s := range r.subresources {
				gv := strings.TrimPrefix(s.Group+"/"+s.Version, "/")
				fmt.Fprintf(&b, "sub %s %s %s\n", s.Name, gv, s.Kind)
			}
		}
	}
	return b.Bytes()
}

// preRelease matches the versions that a server serves only with a flag (k8s.io/kubernetes
// pkg/controlplane/instance.go: DefaultAPIResourceConfigSource).
var preRelease = regexp.MustCompile(`^v[0-9]+(alpha|beta)[0-9]+$`)

// legacyBeta matches a resource of a beta version that a server serves nevertheless, as those before 1.24 were.
var legacyBeta = regexp.MustCompile(`[a-z](v[0-9]+beta[0-9]+)\.SchemeGroupVersion\.WithResource\("([a-z]+)"\)`)

// legacyBetas returns these resources, such as v1beta3/flowschemas.
func legacyBetas(file string) (map[string]bool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(raw), "legacyBetaEnabledByDefaultResources = []") // none exist from 1.32 on
	list, _, _ = strings.Cut(list, "\n\t}\n")
	all := map[string]bool{}
	for _, resource := range legacyBeta.FindAllStringSubmatch(list, -1) {
		all[resource[1]+"/"+resource[2]] = true
	}
	return all, nil
}

// table writes the types of one package. Types of other packages are written with the last two elements of their path,
// such as meta/v1.ObjectMeta.
func table(path string, types []*named) []byte {
	imports := map[string]bool{}
	for _, n := range types {
		for _, f := range n.fields {
			if pkg := packageOf(f.typ); pkg != "" && pkg != path {
				imports[pkg] = true
			}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n", path)
	shorten := []string{path + ".", ""}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&b, "import %s\n", pkg)
		shorten = append(shorten, pkg+".", lastTwo(pkg)+".")
	}
	short := strings.NewReplacer(shorten...)
	for _, n := range types {
		if n.union != nil {
			fmt.Fprintf(&b, "union %s", n.typ.Name())
			for _, a := range n.union {
				fmt.Fprintf(&b, " %s", short.Replace(a))
			}
			b.WriteByte('\n')
			continue
		}
		fmt.Fprintf(&b, "struct %s", n.typ.Name())
		if n.atomic {
			b.WriteString(" !")
		}
		b.WriteByte('\n')
		for _, f := range n.fields {
			fmt.Fprintf(&b, "\t%s\t%s\t%s", f.name, short.Replace(f.typ), f.flags)
			if f.def != "" {
				fmt.Fprintf(&b, "\t%s", f.def)
			}
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func lastTwo(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// packageOf returns the package of the named type at the end of a type expression, or "".
func packageOf(expr string) string {
	slash := strings.LastIndex(expr, "/")
	if slash < 0 {
		return ""
	}
	end := slash + strings.Index(expr[slash:], ".")
	start := strings.LastIndexAny(expr[:slash], " ]}") + 1
	return expr[start:end]
}
