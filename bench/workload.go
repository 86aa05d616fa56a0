package main

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/schema"
)

// A workload is one question for both sides, as YAML.
type workload struct {
	name        string
	mutating    bool
	changes     bool                                                   // the policies change the object
	oursOnly    bool                                                   // without an upstream side
	slow        bool                                                   // the upstream side takes minutes to load
	floors      bool                                                   // with rows of the expressions alone
	byHand      func(object map[string]any) (result bool, cost uint64) // the expression as Go, else nil
	policies    string
	object, old string
	state       string // params
	definition  string // of the custom resource
	kind        schema.GroupVersionKind
	resource    schema.GroupVersionResource
}

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: example, namespace: default, labels: {app: example}}
spec:
  containers:
  - {name: app, image: registry.example.com/app:1, securityContext: {runAsNonRoot: true}, resources: {limits: {memory: 64Mi}}, env: [{name: A, value: b}]}
  - {name: proxy, image: registry.example.com/proxy:1, securityContext: {runAsNonRoot: true}, resources: {limits: {memory: 64Mi}}}
  - {name: logs, image: registry.example.com/logs:1, securityContext: {runAsNonRoot: true}, resources: {limits: {memory: 64Mi}}}
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: example, namespace: default, labels: {app: example, team: shop}}
spec:
  replicas: %d
  selector: {matchLabels: {app: example}}
  template:
    metadata: {labels: {app: example}}
    spec:
      containers:
      - {name: app, image: registry.example.com/app:1, securityContext: {runAsNonRoot: true}, resources: {limits: {memory: 64Mi}}, ports: [{containerPort: 8080}]}
`

const crontab = `
apiVersion: example.com/v1
kind: CronTab
metadata: {name: example, namespace: default, labels: {app: example}}
spec: {schedule: "* * * * *", replicas: 3, steps: [{name: a, image: registry.example.com/a}, {name: b, image: registry.example.com/b}]}
`

const crontabDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string}
              replicas: {type: integer}
              steps: {type: array, items: {type: object, properties: {name: {type: string}, image: {type: string}}}}
`

func workloads() []workload {
	mutation := func(name string, mutations ...string) workload {
		return workload{name: name, mutating: true, changes: len(mutations) > 0, policies: mutatingPolicy(name, mutations...),
			object: pod}
	}
	validation := func(name string, expressions ...string) workload {
		return workload{name: name, policies: validatingPolicy(name, podRule, expressions...), object: pod, floors: true}
	}
	byHand := validation("non-root", nonRoot)
	byHand.byHand = nonRootByHand
	all := []workload{
		{name: "none", mutating: true, object: pod},
		mutation("label", label),
		mutation("sidecar", sidecar),
		mutation("pull-policy", pullPolicy),
		mutation("json-patch", jsonPatch),
		mutation("four-mutations", label, sidecar, pullPolicy, annotation),
		validation("validation-1", podValidations[0]),
		validation("validation-20", podValidations...),
		byHand,
		{name: "deployment", policies: validatingPolicy("deployment", deploymentRule, deploymentValidations...),
			object: fmt.Sprintf(deployment, 3), floors: true},
		{name: "custom-resource", policies: validatingPolicy("crontab", crontabRule, crontabValidations...), object: crontab,
			definition: crontabDefinition, floors: true},
		{name: "update", policies: validatingPolicy("update", deploymentRule, updateValidations...),
			object: fmt.Sprintf(deployment, 3), old: fmt.Sprintf(deployment, 2), floors: true},
		{name: "params-10", policies: withParams, object: pod, state: params(10)},
	}
	for _, n := range []int{10, 500, 10_000} {
		all = append(all, workload{
			name: fmt.Sprintf("nonmatching-%d", n), policies: repeatRule(n, deploymentRule, "object.spec.replicas < 10"),
			object: pod, slow: n > 1000,
		})
	}
	all = append(all, workload{
		name: "nonmatching-10000-celgate", policies: repeatRule(10_000, deploymentRule, "object.spec.replicas < 10"),
		object: pod, oursOnly: true,
	})
	for _, n := range []int{1, 10, 100} {
		all = append(all, workload{
			name:     fmt.Sprintf("matching-%d", n),
			policies: repeatRule(n, podRule, "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"), object: pod,
		})
	}
	for i := range all {
		w := &all[i]
		switch {
		case strings.Contains(w.object, "CronTab"):
			w.kind, w.resource = gvk("example.com", "v1", "CronTab"), gvr("example.com", "v1", "crontabs")
		case strings.Contains(w.object, "Deployment"):
			w.kind, w.resource = gvk("apps", "v1", "Deployment"), gvr("apps", "v1", "deployments")
		default:
			w.kind, w.resource = gvk("", "v1", "Pod"), gvr("", "v1", "pods")
		}
	}
	return all
}

const (
	podRule        = `{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}`
	deploymentRule = `{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}`
	crontabRule    = `{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [crontabs]}`
)

const (
	label   = `Object{metadata: Object.metadata{labels: Object.metadata.labels{team: "shop"}}}`
	sidecar = `Object{spec: Object.spec{initContainers: [Object.spec.initContainers{
      name: "mesh", image: "mesh/proxy:v1"}]}}`
	pullPolicy = `Object{spec: Object.spec{containers: object.spec.containers.map(c,
      Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}`
	annotation = `Object{metadata: Object.metadata{annotations: Object.metadata.annotations{checked: "yes"}}}`
	jsonPatch  = `[JSONPatch{op: "test", path: "/metadata/labels/app", value: "example"},
      JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/team"), value: "shop"}]`
)

// The same questions as in common policy libraries.
var podValidations = []string{
	"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
	"object.spec.containers.all(c, has(c.securityContext) && has(c.securityContext.runAsNonRoot) && c.securityContext.runAsNonRoot == true)",
	"object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)",
	"!has(object.spec.hostNetwork) || object.spec.hostNetwork == false",
	"!has(object.spec.hostPID) || !object.spec.hostPID",
	"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
	"object.metadata.name.matches('^[a-z0-9-]+$')",
	"size(object.spec.containers) < 10",
	"'app' in object.metadata.labels",
	"object.metadata.labels['app'] == object.metadata.name",
	"object.spec.containers.all(c, !c.image.endsWith(':latest'))",
	"object.spec.containers.exists_one(c, c.name == 'app')",
	"object.spec.containers.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
	"object.spec.containers.map(c, c.name).size() == object.spec.containers.size()",
	"object.spec.containers.all(c, c.imagePullPolicy in ['Always', 'IfNotPresent', 'Never'])",
	"object.spec.containers.filter(c, has(c.env)).all(c, c.env.all(e, !e.name.startsWith('SECRET_')))",
	"!has(object.spec.serviceAccountName) || object.spec.serviceAccountName != 'admin'",
	"object.metadata.namespace == 'default' ? object.spec.restartPolicy == 'Always' : true",
	"object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('1Gi')))",
	"request.operation == 'CREATE' || oldObject.metadata.name == object.metadata.name",
}

var deploymentValidations = []string{
	"object.spec.replicas <= 5",
	"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
	"object.spec.template.spec.containers.all(c, c.securityContext.runAsNonRoot)",
	"has(object.metadata.labels) && 'team' in object.metadata.labels",
	"object.spec.selector.matchLabels.all(k, k in object.spec.template.metadata.labels && object.spec.template.metadata.labels[k] == object.spec.selector.matchLabels[k])",
}

var crontabValidations = []string{
	"object.spec.replicas <= 5",
	"object.spec.steps.all(s, s.image.startsWith('registry.example.com/'))",
	"object.spec.schedule.split(' ').size() == 5",
}

var updateValidations = []string{
	"object.spec.selector == oldObject.spec.selector",
	"object.spec.replicas - oldObject.spec.replicas <= 1",
	"oldObject.metadata.labels.all(k, k in object.metadata.labels)",
}

func validatingPolicy(name, rule string, expressions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: %s}\n", name)
	fmt.Fprintf(&b, "spec:\n  matchConstraints: {resourceRules: [%s]}\n  validations:\n", rule)
	for _, e := range expressions {
		fmt.Fprintf(&b, "  - {expression: %q}\n", e)
	}
	fmt.Fprintf(&b, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: %s}\n", name)
	fmt.Fprintf(&b, "spec: {policyName: %s, validationActions: [Deny]}\n", name)
	return b.String()
}

func mutatingPolicy(name string, mutations ...string) string {
	if len(mutations) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: %s}\n", name)
	fmt.Fprintf(&b, "spec:\n  reinvocationPolicy: Never\n  matchConstraints: {resourceRules: [%s]}\n  mutations:\n",
		podRule)
	for _, m := range mutations {
		if strings.HasPrefix(m, "[JSONPatch") {
			fmt.Fprintf(&b, "  - {patchType: JSONPatch, jsonPatch: {expression: %q}}\n", m)
		} else {
			fmt.Fprintf(&b, "  - {patchType: ApplyConfiguration, applyConfiguration: {expression: %q}}\n", m)
		}
	}
	fmt.Fprintf(&b, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: %s}\n", name)
	fmt.Fprintf(&b, "spec: {policyName: %s}\n", name)
	return b.String()
}

func repeatRule(n int, rule, expression string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(validatingPolicy(fmt.Sprintf("policy-%d", i), rule, expression))
	}
	return b.String()
}

// distinctPolicies are n policies of which no two have an expression in common.
func distinctPolicies(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(validatingPolicy(fmt.Sprintf("policy-%d", i), podRule,
			fmt.Sprintf("object.spec.containers.all(c, c.image.startsWith('registry-%d.example.com/'))", i),
			fmt.Sprintf("!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'forbidden-%d')", i),
			fmt.Sprintf("size(object.spec.containers) < %d", i+10)))
	}
	return b.String()
}

const withParams = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: params}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}
  validations:
  - {expression: "object.spec.containers.size() <= int(params.data.maxContainers)"}
  - {expression: "object.spec.containers.all(c, c.image.startsWith(params.data.registry))"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: params}
spec:
  policyName: params
  validationActions: [Deny]
  paramRef: {namespace: default, selector: {matchLabels: {kind: limits}}, parameterNotFoundAction: Deny}
`

func params(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits-%d, namespace: default, labels: {kind: limits}}\n", i)
		fmt.Fprintf(&b, "data: {maxContainers: %q, registry: registry.example.com/}\n", fmt.Sprint(i+5))
	}
	return b.String()
}
