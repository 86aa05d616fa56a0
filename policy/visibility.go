package policy

import "k8s.io/apimachinery/pkg/util/validation/field"

// A Visibility says what of a binding the client of a request is told.
type Visibility struct {
	Violations string // ClientSees, which empty means, too, or AdminSees
	DryRun     string // AlwaysTell: what is only audited is a warning in a dry run
}

// Who is told.
const (
	ClientSees = "Client"
	AdminSees  = "Admin"
	AlwaysTell = "Always"
)

// visibility checks what a client is told.
func (v *validator) visibility(is Visibility, path *field.Path) {
	if is.Violations != "" {
		oneOf(v, path.Child("violations"), is.Violations, []string{AdminSees, ClientSees})
	}
	if is.DryRun != "" {
		oneOf(v, path.Child("dryRun"), is.DryRun, []string{AlwaysTell})
	}
}
