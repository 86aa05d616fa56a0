// Package deploy holds the manifests that put celgate into a cluster.
package deploy

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
)

//go:embed crds/*.yaml celgate.yaml audit.yaml auditpod.yaml
var files embed.FS

// Definitions returns celgate's own kinds, one document after the other.
func Definitions() []byte {
	names, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil // the pattern is good
	}
	documents := make([][]byte, len(names))
	for i, name := range names {
		documents[i], _ = files.ReadFile(name) // it was just listed
	}
	return bytes.Join(documents, []byte("---\n"))
}

// Server returns what runs celgate, from an image.
func Server(image string) []byte {
	text, _ := files.ReadFile("celgate.yaml") // embedded
	return []byte(strings.Replace(string(text), "image: celgate\n", "image: "+image+"\n", 1))
}

// An Audit is a CronJob, or a Deployment, that asks policies about what exists.
type Audit struct {
	Image    string
	Schedule string              // as in a CronJob
	Every    string              // a duration: a Deployment does it, and has metrics; empty: a CronJob
	Shards   int                 // Pods that share the work; 1: one does it
	Policies string              // manifests; empty: those in force in the cluster
	Reports  string              // as celgate audit --write-reports; empty: none are written
	Asks     []string            // flags of celgate audit that say what is asked
	Rules    []rbacv1.PolicyRule // what it may do in the cluster
}

// Sharded reports that several Pods share the work.
func (a *Audit) Sharded() bool { return a.Shards > 1 }

var auditTemplates = template.Must(template.New("audit").Funcs(template.FuncMap{
	"join": strings.Join,
	"indent": func(by int, text string) string {
		margin := strings.Repeat(" ", by)
		return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
	},
}).ParseFS(files, "audit.yaml", "auditpod.yaml"))

// Manifests returns what runs the audit.
func (a *Audit) Manifests() ([]byte, error) {
	var pod, all bytes.Buffer
	if err := auditTemplates.ExecuteTemplate(&pod, "auditpod.yaml", a); err != nil {
		return nil, err
	}
	err := auditTemplates.ExecuteTemplate(&all, "audit.yaml", struct {
		*Audit
		Pod string
	}{a, pod.String()})
	return all.Bytes(), err
}
