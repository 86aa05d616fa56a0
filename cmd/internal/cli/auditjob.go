package cli

import (
	"bytes"
	"strings"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/celgate/celgate/deploy"
)

// An auditJob is a CronJob, or a Deployment, that runs audits.
type auditJob struct {
	Image    string
	Schedule string              // of a CronJob
	Every    string              // the interval of a Deployment, which serves metrics; empty: a CronJob
	Shards   int                 // the number of Pods that share the work
	Policies string              // manifests; empty: those in force in the cluster
	Reports  string              // of celgate audit --write-reports; empty: none
	Asks     []string            // flags of celgate audit that select the questions
	Rules    []rbacv1.PolicyRule // its permissions in the cluster
}

// IsSharded reports whether several Pods share the work.
func (j *auditJob) IsSharded() bool { return j.Shards > 1 }

// manifests returns the manifests that run the audit.
func (j *auditJob) manifests() ([]byte, error) {
	templates, err := template.New("audit").Funcs(template.FuncMap{
		"join": strings.Join,
		"indent": func(by int, text string) string {
			margin := strings.Repeat(" ", by)
			return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
		},
	}).ParseFS(deploy.Audit(), "audit.yaml", "auditpod.yaml")
	if err != nil {
		return nil, err
	}
	var pod, all bytes.Buffer
	if err := templates.ExecuteTemplate(&pod, "auditpod.yaml", j); err != nil {
		return nil, err
	}
	err = templates.ExecuteTemplate(&all, "audit.yaml", struct {
		*auditJob
		Pod string
	}{j, pod.String()})
	return all.Bytes(), err
}
