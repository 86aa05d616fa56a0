package report

import "errors"

// A Beside counts the findings of an audit of files and one of a cluster.
type Beside struct {
	Files   int `json:"files"`   // findings only in the files
	Cluster int `json:"cluster"` // only in the cluster
	Both    int `json:"both"`
}

// Sides of a comparison.
const (
	onlyFiles   = "files"
	onlyCluster = "cluster"
)

// A pairKey identifies equal findings about the same object.
type pairKey struct {
	verdict                              AuditVerdict
	apiVersion, kind, namespace, name    string
	policy, binding, param, field, makes string
}

func (f *AuditFinding) pairKey() pairKey {
	o := f.Object
	return pairKey{f.Verdict, o.APIVersion, o.Kind, o.Namespace, o.Name, f.Policy, f.Binding, f.Param, f.field(),
		f.Made}
}

// ContrastAudits returns an empty audit of the differences between files and a cluster.
func ContrastAudits(files, cluster *StoredAudit, top int) (*Audit, error) {
	if files.PolicySet() != cluster.PolicySet() {
		return nil, errors.New("the policies have changed in the meantime")
	}
	if err := files.verify(); err != nil {
		return nil, err
	}
	a, err := MergedAudit([]*StoredAudit{cluster}, top)
	if err == nil {
		a.Beside = &Beside{}
	}
	return a, err
}

// Contrast records the findings that only one of the reports has. Read and evaluation errors of both count.
func (a *Audit) Contrast(files, cluster *StoredAudit, write func(of *Audited, findings []AuditFinding) error) error {
	known := map[*StoredAudit]map[pairKey]bool{files: {}, cluster: {}}
	for s, keys := range known {
		var err error
		for findings := range s.objects(&err) {
			for i := range findings {
				keys[findings[i].pairKey()] = true
			}
		}
		if err != nil {
			return err
		}
	}
	for _, side := range []struct {
		of, other *StoredAudit
		only      string
		count     *int
	}{{files, cluster, onlyFiles, &a.Beside.Files}, {cluster, files, onlyCluster, &a.Beside.Cluster}} {
		choose := func(findings []AuditFinding) []AuditFinding {
			var alone []AuditFinding
			for _, f := range findings {
				if known[side.other][f.pairKey()] {
					if side.only == onlyFiles {
						a.Beside.Both++
					}
					continue
				}
				f.Only = side.only
				*side.count++
				alone = append(alone, f)
			}
			return alone
		}
		if err := a.absorb(side.of, choose, write); err != nil {
			return err
		}
	}
	return nil
}
