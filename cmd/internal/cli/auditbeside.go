package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/celgate/celgate/cmd/internal/report"
)

// runBeside audits files and a live cluster, and reports the differences between the findings.
func (a *audit) runBeside(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "celgate-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var both [2]*report.StoredAudit
	for i, where := range []string{"files", "cluster"} {
		one := &audit{apply: a.apply, deletions: a.deletions, fails: []string{failOnNothing}}
		path := filepath.Join(folder, where+".json")
		one.wanted = []string{"json=" + path}
		if where == "files" {
			one.live = live{}
		} else {
			one.state = nil
		}
		if err := one.runOnce(ctx); err != nil {
			return err
		}
		if both[i], err = readReport(path); err != nil {
			return err
		}
	}
	of, err := report.ContrastAudits(both[0], both[1], a.top)
	if err != nil {
		return err
	}
	of.About = strings.Join(a.state, ", ") + " and " + a.describe()
	out, err := a.openReport(of, of.Options())
	if err != nil {
		return err
	}
	if err := of.Contrast(both[0], both[1], out.write); err != nil {
		return err
	}
	a.conclude(of.Totals())
	return out.close()
}
