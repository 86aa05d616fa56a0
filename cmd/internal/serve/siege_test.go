package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memoryLimit is that of the container in deploy/.
const memoryLimit = 512 << 20

// attacks are expressions that use as many resources as possible, for an object whose data have these members.
var attacks = []struct{ name, variables, expression string }{
	{"replace", "", "size(object.data.long.replace('a', object.data.long)) > 0"},
	{"replaceEmpty", "", "size(object.data.long.replace('', object.data.long)) > 0"},
	{"joined", "", "object.data.list.split('').map(x, object.data.long).join(',').size() > 0"},
	{"added", doubledText(30), "variables.v30.size() > 0"},
	{"formatted", "", "'%.2147483647f'.format([1.5]).size() > 0"},
	{"formattedList", doubledList("v", 40), "'%s'.format([variables.v40]).size() > 0"},
	{"ranged", "", "lists.range(2000000000).size() > 0"},
	{"exponent", "", "quantity(object.data.q).isGreaterThan(quantity('1'))"},
	{"smallExponent", "", "isQuantity(object.data.minus)"},
	{"exponents", "", "lists.range(50000).all(i, quantity('1e900000').compareTo(quantity('2')) > 0)"},
	{"compared", doubledList("v", 40) + doubledList("w", 40), "variables.v40 == variables.w40"},
	{"contained", doubledList("v", 40), "variables.v40 in [variables.v40, variables.v39]"},
	{"distinct", doubledList("v", 30), "[variables.v30, variables.v29].distinct().size() > 0"},
	{"flat", doubledList("v", 40), "variables.v40.flatten(40).size() > 0"},
	{"summed", concatenation(40), "variables.v40.sum() > 0"},
	{"sorted", concatenation(40), "variables.v40.sort().size() > 0"},
	{"nested", "", "lists.range(300).map(i, lists.range(300).map(j, object.data.long + string(j))).size() > 0"},
	{"split", "", "lists.range(100).map(i, object.data.long.split('')).size() > 0"},
	{"quoted", "", "lists.range(100).map(i, strings.quote(object.data.long)).size() > 0"},
	{"lower", "", "lists.range(100).map(i, object.data.long.lowerAscii()).size() > 0"},
	{"found", "", "lists.range(100).map(i, object.data.long.findAll('a')).size() > 0"},
	{"foundLate", "", "object.data.long.findAll('a*b|a').size() > 0"},
	{"pattern", "", "!object.data.list.matches(lists.range(3000).map(i, 'x{1000}').join())"},
	{"patterns", "", "lists.range(200).all(i, !object.data.list.matches('(a?a?){999}' + string(i)))"},
	{"constantPattern", "", "!object.data.list.matches('" + strings.Repeat("a{1000}", 3000) + "')"},
	{"groups", "", "!object.data.list.matches(lists.range(20000).map(i, '(a?)').join() + 'b')"},
	{"folding", "", "object.data.list.matches('(?i)' + lists.range(3000).map(i, '[B-𞥂]').join())"},
	{
		"versions", "",
		"lists.range(20).map(i, semver('1.0.0-' + lists.range(100000).map(j, 'a').join('.'))).size() < 0",
	},
	{"nullable", "", "lists.range(50).all(i, !object.data.list.matches('" + strings.Repeat("a?", 2000) + "b'))"},
	{"category", "", `object.data.list.find(lists.range(90000).map(i, '\\pL').join()) == ''`},
}

func variable(name, expression string) string {
	return fmt.Sprintf("  - {name: %s, expression: %q}\n", name, expression)
}

func doubledText(n int) string {
	text := variable("v0", "object.data.long")
	for i := range n {
		text += variable(fmt.Sprint("v", i+1), fmt.Sprintf("variables.v%d + variables.v%d", i, i))
	}
	return text
}

func doubledList(name string, n int) string {
	text := variable(name+"0", "dyn([1])")
	for i := range n {
		text += variable(fmt.Sprint(name, i+1), fmt.Sprintf("dyn([variables.%s%d, variables.%s%d])", name, i, name, i))
	}
	return text
}

func concatenation(n int) string {
	text := variable("v0", "[1, 2]")
	for i := range n {
		text += variable(fmt.Sprint("v", i+1), fmt.Sprintf("variables.v%d + variables.v%d", i, i))
	}
	return text
}

const mutations = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: doubling}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  matchConditions: [{name: attack, expression: object.metadata.name == 'doubling'}]
  mutations:
%s---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: doubling}
spec: {policyName: doubling}
`

// hostile are policies with the attacks, each for the object of its name, and one that denies without any.
func hostile() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(strings.ReplaceAll(policies, `operations: ["*"]`, "operations: [CREATE]"),
		"MESSAGE", "bad"))
	for _, a := range attacks {
		fmt.Fprintf(&b, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  matchConditions: [{name: attack, expression: object.metadata.name == '%[2]s'}]
`, strings.ToLower(a.name), a.name)
		if a.variables != "" {
			b.WriteString("  variables:\n" + a.variables)
		}
		fmt.Fprintf(&b, `  validations: [{expression: %q}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[2]s}
spec: {policyName: %[2]s, validationActions: [Deny]}
`, a.expression, strings.ToLower(a.name))
	}
	var steps strings.Builder
	for i := range 30 {
		fmt.Fprintf(&steps, "  - {patchType: JSONPatch, jsonPatch: {expression: %q}}\n",
			fmt.Sprintf(`[JSONPatch{op: "add", path: "/data/x%d", value: object.data.long}, JSONPatch{op: "replace", path: "/data/long", value: object.data.long + object.data.long}]`, i))
	}
	fmt.Fprintf(&b, "---"+mutations, steps.String())
	return b.String()
}

var (
	siegeTime = flag.Duration("siege", 0, "how long the program is besieged; 0: not at all")
	siegeSeed = flag.Uint64("siege-seed", 1, "of what is drawn by chance")
)

const (
	// lateness is the maximum time after the deadline in which a request must be answered, not counting the time of the
	// machine.
	lateness = 200 * time.Millisecond
	// Where others use the processors, too, one in lateOf may be later, but not by more than latest.
	lateOf = 200
	latest = 2 * time.Second
)

// TestSiege runs the program in the memory of its Pod, with policies and objects that need more, beside hostile
// connections and a damaged directory. Requests are answered in time, none is let through, and the program survives and
// reports its state.
func TestSiege(t *testing.T) {
	if *siegeTime == 0 {
		t.Skip("make siege runs it")
	}
	compiles := compiler(t)
	certs, dir := t.TempDir(), t.TempDir()
	trusted := pair(t, certs, time.Now())
	write(t, filepath.Join(dir, "p.yaml"), hostile())
	draw := func(n uint64) grower { return grower{rand.New(rand.NewPCG(*siegeSeed, n))} }
	write(t, filepath.Join(dir, "grown.yaml"), draw(0).policies(compiles))
	program := filepath.Join(t.TempDir(), "celgate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"../../celgate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log := &logged{}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--alone", "--policy-dir", dir, "--listen", "127.0.0.1:0",
		"--metrics-listen", "127.0.0.1:0",
		"--cert",
		filepath.Join(certs, "tls.crt"),
		"--key",
		filepath.Join(certs, "tls.key"),
	)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=400MiB")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	confine(t, cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	address, ops := log.await(t, `listening address=(\S+)`), log.await(t, `metrics address=(\S+)`)

	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "celgate.test"}}}
	const timeout = 2 * time.Second
	rows := newTally()
	machine := newControl(t)
	ask := func(row, phase, name string, object map[string]any) string {
		text, _ := json.Marshal(object)
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"anywhere","name":"` + name + `",` +
			`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"object":` + string(text) + `}}`
		start := time.Now()
		response, err := client.Post("https://"+address+"/"+phase+"?timeout="+timeout.String(), "application/json",
			strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		rows.add(row, response.StatusCode, start, time.Since(start)-timeout)
		return response.Status + " " + string(answer)
	}
	long, list := strings.Repeat("a", 1_000_000), strings.Repeat("a", 2000)
	attack := func(row, phase, name string) string {
		return ask(row, phase, name, map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{
			"long": long, "list": list, "q": "1e2147483647", "minus": "1e-2147483647",
		}})
	}
	ordinary := func(name string) string {
		return ask("ordinary reviews", "validate", name, map[string]any{"metadata": map[string]any{"name": name}})
	}
	// One after the other, each is refused because of its resource use.
	for _, a := range attacks {
		if got := attack("known attacks, one by one", "validate", a.name); strings.HasPrefix(got, "504") {
			t.Logf("%s: not refused before its deadline", a.name) // by a slow machine, and foundLate
		} else if !strings.Contains(got, `"allowed":false`) || !strings.Contains(got, "evaluation stopped") &&
			!strings.Contains(got, "cost limit") {
			t.Errorf("%s: %.500s", a.name, got)
		}
	}
	if got := attack("known attacks, one by one", "mutate", "doubling"); !strings.Contains(got, "evaluation stopped") &&
		!strings.Contains(got, "cost limit") {
		t.Errorf("doubling: %.500s", got)
	}
	// And all together.
	var attackers sync.WaitGroup
	end := time.Now().Add(*siegeTime)
	ctx, stop := context.WithDeadline(t.Context(), end)
	defer stop()
	attackers.Go(func() { machine.ask(ctx) })
	counts := make([]atomic.Int64, len(nuisances))
	for i, n := range nuisances {
		besieged := &target{address: address, trusted: trusted, counts: &counts[i]}
		attackers.Go(func() {
			seed := rand.New(rand.NewPCG(*siegeSeed, 1000+uint64(i)))
			for ctx.Err() == nil {
				n.do(ctx, besieged, seed)
				wait(ctx, 20*time.Millisecond) // of two processors one is the server's
			}
		})
	}
	drawn, spoiled := 1, 0
	attackers.Go(func() {
		seed := rand.New(rand.NewPCG(*siegeSeed, 1<<32))
		for ctx.Err() == nil {
			n, err := spoil(ctx, dir, seed, func() error { return checkReady(ops, "") })
			if spoiled += n; err != nil {
				t.Error(err)
				return
			}
			for range 4 {
				next := filepath.Join(dir, "grown.next") // a new file takes its place
				err := os.WriteFile(next, []byte(draw(uint64(drawn)).policies(compiles)), 0o600)
				if err = cmp.Or(err, os.Rename(next, filepath.Join(dir, "grown.yaml"))); err != nil {
					t.Error(err)
				}
				drawn++
				wait(ctx, 3*time.Second)
			}
		}
	})
	attackers.Go(func() {
		for ctx.Err() == nil {
			if got := ordinary("bad"); strings.HasPrefix(got, "200") && !strings.Contains(got, "denied request: bad") {
				t.Errorf("in the middle of it: %.500s", got)
			}
			wait(ctx, 50*time.Millisecond)
		}
	})
	var next atomic.Int64
	for worker := range 16 {
		attackers.Go(func() {
			g := draw(1<<20 + uint64(worker))
			for time.Now().Before(end) {
				var got string
				switch i := int(next.Add(1)) % (len(attacks) + 1); {
				case worker%2 == 0:
					name := grownName(g.IntN(grown))
					got = ask("generated policies and objects", "validate", name, g.data(name))
				case i == len(attacks):
					got = attack("known attacks, 8 at a time", "mutate", "doubling")
				default:
					got = attack("known attacks, 8 at a time", "validate", attacks[i].name)
				}
				if strings.Contains(got, `"allowed":true`) ||
					!slices.Contains([]string{"200", "408", "503", "504"}, got[:min(3, len(got))]) {
					t.Errorf("%.500s", got)
				}
			}
		})
	}
	for time.Now().Before(end) {
		if err := checkReady(ops, "?exclude=directory"); err != nil {
			t.Errorf("readiness is lost: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	attackers.Wait()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) &&
		strings.HasPrefix(ordinary("good"), "503"); time.Sleep(100 * time.Millisecond) {
	} // abandoned evaluations end
	if got := ordinary("bad"); !strings.Contains(got, "denied request: bad") {
		t.Errorf("afterwards: %.500s", got)
	}
	if got := ordinary("good"); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("afterwards: %.500s", got)
	}
	peak := peakMemory(t, cmd.Process.Pid)
	if peak > memoryLimit {
		t.Errorf("it took %d MiB", peak>>20)
	}
	late := 0
	for _, l := range rows.late {
		own := machine.slowest(l.start, l.start.Add(timeout+l.by))
		if l.by > lateness+own {
			late++
		}
		if l.by > latest+own {
			t.Errorf("%s: answered %v after the deadline, while what only reads and answers took up to %v", l.row, l.by,
				own)
		}
	}
	// A short siege runs beside the tests of other packages.
	if all := rows.countAnswers(); *siegeTime >= time.Minute && int64(late) > all/lateOf {
		t.Errorf("%d of %d answers came more than %v after their deadline", late, all, lateness)
	}
	for i, n := range nuisances {
		rows.note(n.name, counts[i].Load())
	}
	rows.note("directory spoiled", int64(spoiled))
	rows.note("times that policies were drawn", int64(drawn))
	t.Logf("%s under siege, seed %d:\n\n%s\nThe slowest of %d answers of a handler that only reads took %s; %d of %d answers came more than %v later than it could explain. At most %d MiB.", *siegeTime, *siegeSeed, rows.table(timeout),
		len(machine.asked), machine.slowest(time.Time{}, end).Round(time.Millisecond), late,
		rows.countAnswers(), lateness,
		peak>>20)
	select {
	case err := <-ended:
		log.mu.Lock()
		t.Fatalf("it ended: %v\n%.5000s", err, log.text.String())
	default:
	}
	start := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 15*time.Second { // abandoned evaluations end first
		t.Errorf("it ended %v after it was told to", took)
	}
}

// checkReady asks a replica whether it is ready.
func checkReady(ops, query string) error {
	response, err := http.Get("http://" + ops + "/readyz" + query)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s", response.Status, text)
	}
	return err
}

// peakMemory is the most that a process has held.
func peakMemory(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// confine puts a process in a cgroup of the memory limit, where one can be made; elsewhere the peak is looked at alone.
func confine(t *testing.T, pid int) {
	t.Helper()
	for _, c := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"}} {
		group := filepath.Join(c.root, fmt.Sprintf("celgate-siege-%d", pid))
		if os.Mkdir(group, 0o700) != nil {
			continue
		}
		t.Cleanup(func() {
			for range 50 { // the process takes a moment to end
				if os.Remove(group) == nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		if os.WriteFile(filepath.Join(group, c.limit), []byte(strconv.Itoa(memoryLimit)), 0o600) == nil &&
			os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600) == nil {
			t.Logf("confined to %d MiB in %s", memoryLimit>>20, group)
			return
		}
	}
	t.Log("no cgroup can be made here")
}
