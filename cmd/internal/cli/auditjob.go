package cli

import (
	"bytes"
	"strings"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/celgate/celgate/deploy"
)

// An auditJob is a CronJob, or a Deployment, that asks policies about what exists.
type auditJob struct {
	Image    string
	Schedule string              // as in a CronJob
	Every    string              // a duration: a Deployment does it, and has metrics; empty: a CronJob
	Shards   int                 // Pods that share the work; 1: one does it
	Policies string              // manifests; empty: those in force in the cluster
	Reports  string              // as celgate audit --write-reports; empty: none are written
	Asks     []string            // flags of celgate audit that say what is asked
	Rules    []rbacv1.PolicyRule // what it may do in the cluster
}

// IsSharded reports that several Pods share the work.
func (j *auditJob) IsSharded() bool { return j.Shards > 1 }

var auditTemplates = template.Must(template.New("audit").Funcs(template.FuncMap{
	"join": strings.Join,
	"indent": func(by int, text string) string {
		margin := strings.Repeat(" ", by)
		return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
	},
}).ParseFS(deploy.Audit(), "audit.yaml", "auditpod.yaml"))

// manifests returns what runs the audit.
func (j *auditJob) manifests() ([]byte, error) {
	var pod, all bytes.Buffer
	if err := auditTemplates.ExecuteTemplate(&pod, "auditpod.yaml", j); err != nil {
		return nil, err
	}
	err := auditTemplates.ExecuteTemplate(&all, "audit.yaml", struct {
		*auditJob
		Pod string
	}{j, pod.String()})
	return all.Bytes(), err
}
