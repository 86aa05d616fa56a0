package policy

import "k8s.io/apimachinery/pkg/util/validation/field"

// A Visibility defines what the client of a request learns about violations.
type Visibility struct {
	Violations string // ClientSees, the default, or AdminSees
	DryRun     string // AlwaysTell: in a dry run, audited violations are also warnings
}

// The values of Visibility: who is informed of violations.
const (
	ClientSees = "Client"
	AdminSees  = "Admin"
	AlwaysTell = "Always"
)

// visibility checks the members of a Visibility.
func (v *validator) visibility(is Visibility, path *field.Path) {
	if is.Violations != "" {
		oneOf(v, path.Child("violations"), is.Violations, []string{AdminSees, ClientSees})
	}
	if is.DryRun != "" {
		oneOf(v, path.Child("dryRun"), is.DryRun, []string{AlwaysTell})
	}
}
