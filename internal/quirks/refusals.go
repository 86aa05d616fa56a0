package quirks

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/pattern"
)

// A rewording is a message about refused objects that older minors word differently.
type rewording struct {
	since  string         // first minor with the newest wording
	field  pattern.Regexp // the refused field
	detail pattern.Regexp // the newest wording
	was    string         // the older wording
}

// shared are the rewordings for objects of all kinds (k8s.io/apimachinery pkg/util/validation, k8s.io/kubernetes
// pkg/apis/{core,networking,rbac}/validation/validation.go and k8s.io/apiextensions-apiserver
// pkg/apis/apiextensions/validation/validation.go of each minor).
var shared = []rewording{
	{"1.35", pattern.New(``), pattern.New(`\b(must be no more than \d+) bytes`), "$1 characters"},
	{"1.36", pattern.New(`\.resizePolicy$`), pattern.New("^must be 'NotRequired' when pod `"),
		"must be 'NotRequired' when `"},
	{"1.34", pattern.New(`^spec\.parameters\.kind$`), pattern.New(`^$`), "kind is required"},
	{"1.34", pattern.New(`^spec\.parameters\.name$`), pattern.New(`^$`), "name is required"},
	{"1.34", pattern.New(`\bspec\.os\.name$`), pattern.New(`^$`), "cannot be empty"},
	{"1.34", pattern.New(`\bschema\.openAPIV3Schema$`), pattern.New(`^$`), "schemas are required"},
	{"1.37", pattern.New(`^rules\[\d+\]\.verbs$`), pattern.New(`^$`), "verbs must contain at least one value"},
	{"1.34", pattern.New(`\bspec\.[hH]ost\w+$`), pattern.New("^when `hostUsers` is false$"),
		"when `pod.Spec.HostUsers` is false"},
}

// rewordings are those for policies and bindings
// (k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go of each minor).
var rewordings = []rewording{
	{"1.37", pattern.New(`^spec\.validationActions$`), pattern.New(`^$`),
		"at least one validation action is required"},
	{"1.34", pattern.New(`^spec\.variables\[\d+\]\.name$`), pattern.New(`^must be a valid CEL`),
		"name is not a valid CEL"},
	{"1.34", pattern.New(`^spec\.validations\[\d+\]\.message$`), pattern.New(`^must (be|not)\b`),
		"message must $1"},
	{"1.31", pattern.New(`^spec\.paramRef$`),
		pattern.New(`^(?:unable to .* and )?user (.*) does not have "(\w+)" permission .*$`),
		`user $2 does not have "$1" permission on the object referenced by paramRef`},
	{"1.32", pattern.New(`^spec\.paramRef$`),
		pattern.New(`^unable to .* and (user .* does not have "\w+" permission) .*$`),
		`$1 on the object referenced by paramRef`},
	{"1.32", pattern.New(``), pattern.New(`(must evaluate to .*) but got .*`), "$1"},
}

// misspelt matches a path of bindings that minors before 1.32 misspell.
var misspelt = pattern.New(`^spec\.matchResources\b`)

// added are the errors about objects that older minors do not have: what is wrong is stored there.
var added = []struct {
	since string         // first minor with the error
	kind  string         // of the object; empty: any
	field pattern.Regexp // the refused field
	but   pattern.Regexp // the details of errors that older minors have, too; nil: none
}{
	// k8s.io/apiextensions-apiserver pkg/registry/customresource/validator.go v0.37.2: metadata that do not decode
	{"1.37", "", pattern.New(`^metadata$`), nil},
	// pkg/apis/apps/validation/validation.go v1.34.4: claims of a StatefulSet
	{"1.34", "StatefulSet", pattern.New(`^spec\.volumeClaimTemplates\[`), nil},
	// pkg/apis/apps/validation/validation.go v1.34.4: the Pods of a StatefulSet, of which minors before only require
	// that they always run
	{"1.34", "StatefulSet", pattern.New(`^spec\.template\.spec\.\w+[.\[]`), nil},
	{"1.34", "StatefulSet", pattern.New(`^spec\.template\.spec(\.\w+)?$`),
		pattern.New(`^(supported values: "Always"|activeDeadlineSeconds in StatefulSet .*)$`)},
	// pkg/apis/apps/validation/validation.go v1.33.13
	{"1.33", "StatefulSet", pattern.New(`^spec\.serviceName$`), nil},
	// pkg/apis/core/validation/validation.go v1.36.3: what the resizing of an init container restarts
	{"1.36", "", pattern.New(`\binitContainers\[\d+\]\.resizePolicy\[\d+\]\.restartPolicy$`), nil},
	// pkg/apis/core/validation/validation.go v1.34.4: devices in a user namespace
	{"1.34", "", pattern.New(`ontainers\[\d+\]\.volumeDevices$`), nil},
	// pkg/apis/core/validation/validation.go v1.33.13: labels of nodes that a Pod requires
	{"1.33", "", pattern.New(
		`\bnodeAffinity\.required\w+\.nodeSelectorTerms\[\d+\]\.matchExpressions\[\d+\]\.values\[`), nil},
	// pkg/apis/autoscaling/validation/validation.go v1.34.4
	{"1.34", "HorizontalPodAutoscaler",
		pattern.New(`^spec\.(scaleTargetRef|metrics\[\d+\]\.object\.describedObject)\.apiVersion$`), nil},
}

// moved are the fields that older minors name by other paths
// (pkg/apis/{core,node}/validation/validation.go of each minor).
var moved = []struct {
	since string         // first minor with the newest path
	field pattern.Regexp // the newest path
	was   string         // the older path
}{
	{"1.35", pattern.New(`^scheduling\.tolerations\[`), "scheduling.tolerations.tolerations["},
	{"1.37", pattern.New(`\bspec\.shareProcessNamespace$`), "spec.securityContext.shareProcessNamespace"},
}

// Refusals returns the errors of a minor about an object of a kind, given the errors of the newest.
func Refusals(minor, kind string, errs field.ErrorList) field.ErrorList {
	errs = slices.DeleteFunc(slices.Clone(errs), func(e *field.Error) bool {
		for _, a := range added {
			if IsBefore(minor, a.since) && (a.kind == "" || a.kind == kind) && a.field().MatchString(e.Field) &&
				(a.but == nil || !a.but().MatchString(e.Detail)) {
				return true
			}
		}
		return false
	})
	said := reword(minor, errs, shared, builtinAsGo)
	for _, e := range said {
		for _, m := range moved {
			if IsBefore(minor, m.since) {
				e.Field = m.field().ReplaceAllString(e.Field, m.was)
			}
		}
	}
	return said
}

// PolicyRefusals is [Refusals] for a native policy or binding.
func PolicyRefusals(minor string, errs field.ErrorList) field.ErrorList {
	said := reword(minor, errs, slices.Concat(shared, rewordings), policyAsGo)
	if IsBefore(minor, "1.32") {
		for _, e := range said {
			e.Field = misspelt().ReplaceAllString(e.Field, "spec.matchResouces")
		}
	}
	return said
}

func reword(minor string, errs field.ErrorList, rules []rewording, asGo func(*field.Error) any) field.ErrorList {
	said := slices.Clone(errs)
	for i, e := range errs {
		older := *e
		if IsBefore(minor, "1.34") {
			older.BadValue = asGo(e)
		}
		for _, r := range rules {
			if IsBefore(minor, r.since) && r.field().MatchString(e.Field) {
				older.Detail = r.detail().ReplaceAllString(older.Detail, r.was)
			}
		}
		said[i] = &older
	}
	return said
}

// NamespacesResource returns how a minor names the resource of namespaces in its error about one that does not exist
// (k8s.io/client-go listers/core/v1/namespace.go v0.30.14).
func NamespacesResource(minor string) string {
	if IsBefore(minor, "1.32") {
		return "namespace"
	}
	return "namespaces"
}
