package scope

import "strings"

// A Template is where the objects of a built-in kind hold the template of their Pods.
type Template struct {
	Group, Version, Kind, Resource string
	Path                           string // such as spec.template
}

// Templates are those of all built-in kinds that have one.
var Templates = []Template{
	{"apps", "v1", "Deployment", "deployments", "spec.template"},
	{"apps", "v1", "ReplicaSet", "replicasets", "spec.template"},
	{"apps", "v1", "StatefulSet", "statefulsets", "spec.template"},
	{"apps", "v1", "DaemonSet", "daemonsets", "spec.template"},
	{"batch", "v1", "Job", "jobs", "spec.template"},
	{"", "v1", "ReplicationController", "replicationcontrollers", "spec.template"},
	{"batch", "v1", "CronJob", "cronjobs", "spec.jobTemplate.spec.template"},
	{"", "v1", "PodTemplate", "podtemplates", "template"},
}

// Members are the steps of the path.
func (t Template) Members() []string { return strings.Split(t.Path, ".") }

// TemplateOf returns where the objects of a kind hold the template of their Pods.
func TemplateOf(group, kind string) (Template, bool) {
	for _, t := range Templates {
		if t.Group == group && t.Kind == kind {
			return t, true
		}
	}
	return Template{}, false
}
