package conformance

//go:generate go test -run Rules -update

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A Rule is one statement about the behaviour of the server, with the cases that show it.
type Rule struct {
	ID       string
	Sentence string
	Cases    []string // area/case, or a pattern as of [path.Match] for several
	Gap      string   // why no case shows it
}

// A Section is a group of rules.
type Section struct {
	ID, Title string
	Rules     []Rule
}

var ruleID = regexp.MustCompile(`^[A-Z]-\d+(\.\d+)+$`)

// ParseRules parses the format of testdata/rules.txt: "## ID title" begins a section, "ID sentence" a rule, and
// indented lines below it name cases or contain "no case: reason". Empty lines, "#" alone and lines that begin with "#
// " are ignored.
func ParseRules(text string) ([]Section, error) {
	var sections []Section
	for i, line := range strings.Split(text, "\n") {
		fail := func(what string) ([]Section, error) { return nil, fmt.Errorf("line %d: %s", i+1, what) }
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "## "), " ")
		switch {
		case line == "" || line == "#" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "## "):
			sections = append(sections, Section{ID: id, Title: rest})
		case len(sections) == 0:
			return fail("the section is missing")
		case strings.HasPrefix(line, "  "):
			rules := sections[len(sections)-1].Rules
			if len(rules) == 0 {
				return fail("the rule is missing")
			}
			rule := &rules[len(rules)-1]
			if reason, ok := strings.CutPrefix(strings.TrimSpace(line), "no case: "); ok {
				rule.Gap = reason
			} else {
				rule.Cases = append(rule.Cases, strings.Fields(line)...)
			}
		default:
			section := &sections[len(sections)-1]
			if !ruleID.MatchString(id) || !strings.HasPrefix(id, section.ID+".") || rest == "" {
				return fail(fmt.Sprintf("%q is not a rule of %s", line, section.ID))
			}
			section.Rules = append(section.Rules, Rule{ID: id, Sentence: rest})
		}
	}
	return sections, nil
}

// CheckRules returns the mistakes in rules about cases: numbers that are not consecutive, cases that do not exist,
// cases that a rule names twice or that are in no rule, and reasons for a missing case if one exists.
func CheckRules(sections []Section, cases []*Case) []string {
	var problems []string
	unnamed := map[string]bool{}
	for _, c := range cases {
		unnamed[c.Name] = true
	}
	for _, section := range sections {
		for i, rule := range section.Rules {
			if want := fmt.Sprintf("%s.%d", section.ID, i+1); rule.ID != want {
				problems = append(problems, fmt.Sprintf("%s: its number should be %s", rule.ID, want))
			}
			if rule.Gap != "" && len(rule.Cases) > 0 {
				problems = append(problems, rule.ID+": has cases, and a reason for having none")
			}
			seen := map[string]bool{}
			for _, pattern := range rule.Cases {
				found := 0
				for _, c := range cases {
					if ok, _ := path.Match(pattern, c.Name); !ok {
						continue
					}
					found++
					delete(unnamed, c.Name)
					if seen[c.Name] {
						problems = append(problems, fmt.Sprintf("%s: %s twice", rule.ID, c.Name))
					}
					seen[c.Name] = true
				}
				if found == 0 {
					problems = append(problems, fmt.Sprintf("%s: unknown case %s", rule.ID, pattern))
				}
			}
		}
	}
	for name := range unnamed {
		problems = append(problems, name+": not in any rule")
	}
	slices.Sort(problems)
	return problems
}

// RulesTable writes the sections as Markdown tables below a sentence that counts them.
func RulesTable(sections []Section, cases []*Case) string {
	var tables strings.Builder
	rules, gaps := 0, 0
	for _, section := range sections {
		fmt.Fprintf(&tables, "\n### %s %s\n\n| rule | what the server does | cases |\n|---|---|---|\n", section.ID,
			section.Title)
		for _, rule := range section.Rules {
			rules++
			var shown string
			switch {
			case len(rule.Cases) > 0:
				shown = "`" + strings.Join(rule.Cases, "` `") + "`"
			case rule.Gap != "":
				gaps++
				shown = "**gap**: " + rule.Gap
			default:
				gaps++
				shown = "**gap**"
			}
			fmt.Fprintf(&tables, "| %s | %s | %s |\n", rule.ID, strings.ReplaceAll(rule.Sentence, "|", `\|`), shown)
		}
	}
	return fmt.Sprintf("\n%d rules, %d cases; %d rules are without a case.\n%s\n", rules, len(cases), gaps, &tables)
}
