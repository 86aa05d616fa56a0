package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/celgate/celgate/schema"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A verdict is the result of a validation.
type verdict int8

const (
	failed verdict = iota
	no
	yes
)

// A judge knows the verdict of an expression about a value without an engine. The type of the values is that of its
// bed.
type judge struct {
	text  string
	about func(value any) verdict
}

// A bed is a set of values that tells all of its judges and their combinations apart, so that their verdicts about these
// values are the known answer for a pair of expressions.
type bed struct {
	name, kind string
	values     []any
	judges     []judge
	pairs      int
}

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

func negate(a judge) judge {
	return judge{"!(" + a.text + ")", func(v any) verdict { return []verdict{failed, yes, no}[a.about(v)] }}
}

func conjoin(a, b judge) judge {
	return judge{"(" + a.text + " && " + b.text + ")", func(v any) verdict {
		x, y := a.about(v), b.about(v)
		switch {
		case x == no || y == no:
			return no
		case x == yes && y == yes:
			return yes
		}
		return failed
	}}
}

func disjoin(a, b judge) judge {
	both := conjoin(negate(a), negate(b))
	return judge{"(" + a.text + " || " + b.text + ")", negate(both).about}
}

func choose(a, b, c judge) judge {
	return judge{"(" + a.text + " ? " + b.text + " : " + c.text + ")", func(v any) verdict {
		switch a.about(v) {
		case yes:
			return b.about(v)
		case no:
			return c.about(v)
		}
		return failed
	}}
}

// draw returns an expression and an edit of it.
func (b bed) draw(rng *rand.Rand) (old, now judge) {
	pick := func() judge { return b.judges[rng.IntN(len(b.judges))] }
	x, y, z := pick(), pick(), pick()
	both := [][2]judge{
		{x, y}, {conjoin(x, y), x}, {disjoin(x, y), y}, {conjoin(x, y), disjoin(x, y)}, {conjoin(x, y), conjoin(y, x)},
		{negate(conjoin(x, y)), disjoin(negate(x), negate(y))}, {conjoin(x, y), conjoin(x, z)},
		{disjoin(x, y), disjoin(z, y)},
		{choose(x, y, z), disjoin(conjoin(x, y), conjoin(negate(x), z))}, {choose(x, y, z), choose(x, z, y)},
		{conjoin(x, disjoin(y, z)), disjoin(conjoin(x, y), conjoin(x, z))}, {x, negate(negate(x))}, {x, negate(x)},
		{conjoin(x, disjoin(y, z)), conjoin(x, y)},
	}[rng.IntN(14)]
	if rng.IntN(2) == 0 {
		return both[1], both[0]
	}
	return both[0], both[1]
}

// isStricter reports whether now denies every value that old denies.
func (b bed) isStricter(old, now judge) bool {
	return !slices.ContainsFunc(b.values, func(v any) bool { return old.about(v) != yes && now.about(v) == yes })
}

// beds returns test beds for integers, strings, numerals, quantities and lists.
func beds() []bed {
	var words, absentOrWords []any
	for layer := []string{""}; len(layer[0]) <= 4; {
		var next []string
		for _, w := range layer {
			words = append(words, w)
			for _, c := range []string{"a", "b", "/"} {
				next = append(next, w+c)
			}
		}
		layer = next
	}
	absentOrWords = append(append(absentOrWords, words...), nil)

	replicas := bed{name: "integers", kind: "Deployment", pairs: 40}
	for n := range 13 {
		replicas.values = append(replicas.values, n)
	}
	for n := 2; n < 6; n++ {
		for sign, is := range map[string]func(x, y int) bool{"<": func(x, y int) bool { return x < y },
			"<=": func(x, y int) bool { return x <= y }, "==": func(x, y int) bool { return x == y },
			"!=": func(x, y int) bool { return x != y }} {
			replicas.judges = append(replicas.judges,
				judge{fmt.Sprintf("object.spec.replicas %s %d", sign, n),
					func(v any) verdict { return verdictOf(is(v.(int), n)) }},
				judge{fmt.Sprintf("object.spec.replicas / 2 %s %d", sign, n-1),
					func(v any) verdict { return verdictOf(is(v.(int)/2, n-1)) }})
		}
	}

	texts := bed{name: "strings", kind: "ConfigMap", values: absentOrWords, pairs: 60}
	for _, part := range []string{"a", "b", "ab", "a/"} {
		for call, is := range map[string]func(s, part string) bool{"object.data.a.startsWith('%s')": strings.HasPrefix,
			"object.data.a.endsWith('%s')": strings.HasSuffix, "object.data.a.contains('%s')": strings.Contains,
			"object.data.a == '%s'":             func(s, part string) bool { return s == part },
			"object.data.a.matches('^%s')":      strings.HasPrefix,
			"size(object.data.a) <= size('%s')": func(s, part string) bool { return len(s) <= len(part) },
			"object.data.a.matches('^(%s)+$')": func(s, part string) bool {
				return regexp.MustCompile("^(" + part + ")+$").MatchString(s)
			}} {
			texts.judges = append(texts.judges, judge{fmt.Sprintf(call, part), func(v any) verdict {
				s, ok := v.(string)
				if !ok {
					return failed
				}
				return verdictOf(is(s, part))
			}})
		}
	}
	texts.judges = append(texts.judges,
		judge{"has(object.data) && 'a' in object.data", func(v any) verdict { return verdictOf(v != nil) }},
		judge{"object.?data[?'a'].orValue('') != ''", func(v any) verdict { return verdictOf(v != nil && v != "") }})

	numerals := bed{name: "numerals", kind: "ConfigMap", pairs: 40, values: []any{nil, "", "x", "-9", "-2", "-1", "0", "00",
		"+0", "1", "01", "2", "3", "4", "5", "6", "7", "99"}}
	quantities := bed{name: "quantities", kind: "ConfigMap", pairs: 40, values: []any{nil, "", "x", "-1", "0", "1m", "499m",
		"0.5", "501m", "999m", "1", "1001m", "1023", "1024", "1025", "1Mi", "1T"}}
	for sign, is := range map[string]func(order int) bool{"<": func(o int) bool { return o < 0 },
		"<=": func(o int) bool { return o <= 0 }, ">": func(o int) bool { return o > 0 },
		"==": func(o int) bool { return o == 0 }} {
		for n := int64(0); n < 5; n += 2 {
			numerals.judges = append(numerals.judges, judge{fmt.Sprintf("int(object.data.a) %s %d", sign, n),
				func(v any) verdict {
					s, _ := v.(string)
					x, err := strconv.ParseInt(s, 10, 64)
					if err != nil {
						return failed
					}
					return verdictOf(is(int(x - n)))
				}})
		}
		for _, q := range []string{"0", "500m", "1", "1Ki"} {
			bound := resource.MustParse(q)
			quantities.judges = append(quantities.judges,
				judge{fmt.Sprintf("quantity(object.data.a).compareTo(quantity('%s')) %s 0", q, sign), func(v any) verdict {
					s, _ := v.(string)
					x, err := resource.ParseQuantity(s)
					if err != nil {
						return failed
					}
					return verdictOf(is(x.Cmp(bound)))
				}})
		}
	}

	images := bed{name: "lists", kind: "Pod", pairs: 60}
	some := []string{"a", "b", "c", "ab", "a/a", "a/b", "bb"} // one for each result of the tests
	for _, x := range some {
		images.values = append(images.values, []string{x})
		for _, y := range some {
			images.values = append(images.values, []string{x, y})
			for _, z := range some {
				images.values = append(images.values, []string{x, y, z})
			}
		}
	}
	for macro, is := range map[string]func(holding, all int) bool{"all": func(n, all int) bool { return n == all },
		"exists": func(n, _ int) bool { return n > 0 }, "exists_one": func(n, _ int) bool { return n == 1 }} {
		for test, holds := range map[string]func(string) bool{
			"c.image.startsWith('a')":  func(s string) bool { return strings.HasPrefix(s, "a") },
			"c.image.startsWith('a/')": func(s string) bool { return strings.HasPrefix(s, "a/") },
			"c.image == 'b'":           func(s string) bool { return s == "b" },
			"c.image.contains('b')":    func(s string) bool { return strings.Contains(s, "b") }} {
			images.judges = append(images.judges, judge{"object.spec.containers." + macro + "(c, " + test + ")",
				func(v any) verdict {
					n := 0
					for _, s := range v.([]string) {
						if holds(s) {
							n++
						}
					}
					return verdictOf(is(n, len(v.([]string))))
				}})
		}
	}
	all := []bed{replicas, texts, numerals, quantities, images}
	for _, b := range all { // maps have no order
		slices.SortFunc(b.judges, func(x, y judge) int { return strings.Compare(x.text, y.text) })
	}
	return all
}

// TestBed asks about generated pairs of expressions whose answers are known without an engine: an answer must never be
// wrong, and rarely open.
func TestBed(t *testing.T) {
	r := room(t)
	share := 1
	if testing.Short() {
		share = 10
	}
	askBeds(t, r, share)
}

// askBeds asks about a share of the pairs of all beds.
func askBeds(t *testing.T, r *Room, share int) (opinion Opinion) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, b := range beds() {
		b.pairs /= share
		i := slices.IndexFunc(agreementKinds, func(k schema.GroupVersionKind) bool { return k.Kind == b.kind })
		kind := agreementKinds[i]
		res := r.Types.ResourceFor(kind)
		tally := map[Answer]int{}
		for range b.pairs {
			x, y := b.draw(rng)
			was := sideOf(t, r, one(kind.Group, kind.Version, res.Resource, x.text))
			is := sideOf(t, r, one(kind.Group, kind.Version, res.Resource, y.text))
			for _, d := range []struct {
				from, to *Side
				known    bool
			}{{was, is, b.isStricter(x, y)}, {is, was, b.isStricter(y, x)}} {
				got, err := r.Stricter(context.Background(), d.from, d.to)
				if err != nil {
					t.Fatal(err)
				}
				tally[got.Answer]++
				opinion.add(got.Opinion)
				switch {
				case got.Answer == Disputed:
					t.Errorf("%s: %s:\n%s\n%s", b.name, got.Reasons[0].Message, x.text, y.text)
				case got.Answer == Proved && !d.known || got.Answer == Counterexample && d.known:
					t.Errorf("%s: %s, and known %v:\n%s\n%s", b.name, got.Answer, d.known, x.text, y.text)
				}
			}
		}
		t.Logf("%s: %d pairs, both directions: %v", b.name, b.pairs, tally)
		if open := tally[Undecided] + tally[NotFound]; open > b.pairs/5 {
			t.Errorf("%s: %d answers are open", b.name, open)
		}
	}
	return opinion
}
