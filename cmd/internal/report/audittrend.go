package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A trend is the change of a count.
type trend struct{ Text, Class string }

// trendOf compares a count of problems with an earlier one.
func trendOf(now, before int) *trend {
	switch {
	case now > before:
		return &trend{fmt.Sprintf("+%d", now-before), "up"}
	case now < before:
		return &trend{fmt.Sprintf("−%d", before-now), "down"}
	}
	return &trend{"±0", "soft"}
}

// trend compares a group with the last report; nil without one.
func (a *Audit) trend(g *auditGroup) *trend {
	if a.Last == nil {
		return nil
	}
	return trendOf(g.objects, a.Last.groups[lastKey{g.verdict, g.policy, g.binding, g.field, g.made}])
}

// goneGroups returns the groups of the last report without present findings, the worst first.
func (a *Audit) goneGroups() []jsonGroup {
	if a.Last == nil {
		return nil
	}
	there := map[lastKey]bool{}
	for _, g := range a.groups {
		there[lastKey{g.verdict, g.policy, g.binding, g.field, g.made}] = true
	}
	var all []jsonGroup
	for _, g := range a.Last.summary.Groups {
		if !there[lastKey{g.Verdict, g.Policy, g.Binding, g.Field, g.Creates}] {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(g, h jsonGroup) int {
		return cmp.Or(g.Verdict.rank()-h.Verdict.rank(), h.Objects-g.Objects)
	})
	return all
}

// headline returns the headline of a group of an earlier report.
func (g *jsonGroup) headline() string {
	s := fmt.Sprintf("%d %s", g.Objects, g.Verdict)
	if g.Creates != "" {
		s = fmt.Sprintf("%ss of %s %s", g.Creates, plural(g.Objects, "object", "objects"), g.Verdict)
	}
	if g.Policy != "" {
		s += " by " + origin(g.Policy, g.Binding, "")
	}
	if g.Message != "" {
		s += ": " + strings.Join(strings.Fields(g.Message), " ")
	}
	return s
}

// timeText returns the time of the report for a reader; empty: unknown.
func (s *StoredAudit) timeText() string {
	t, err := time.Parse(time.RFC3339, s.summary.Time)
	if err != nil {
		return ""
	}
	return clock(t)
}
