package cli

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

//go:generate go run github.com/valyala/quicktemplate/qtc -dir=.

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

// indentLines indents each line of a text by some spaces.
func indentLines(by int, text string) string {
	margin := strings.Repeat(" ", by)
	return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
}
