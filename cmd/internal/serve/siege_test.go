package serve

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memoryLimit is that of the container in deploy/.
const memoryLimit = 512 << 20

// attacks are expressions that take what they can get, for an object whose data have these members.
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
	{"summed", concatenated(40), "variables.v40.sum() > 0"},
	{"sorted", concatenated(40), "variables.v40.sort().size() > 0"},
	{"nested", "", "lists.range(300).map(i, lists.range(300).map(j, object.data.long + string(j))).size() > 0"},
	{"split", "", "lists.range(100).map(i, object.data.long.split('')).size() > 0"},
	{"quoted", "", "lists.range(100).map(i, strings.quote(object.data.long)).size() > 0"},
	{"lower", "", "lists.range(100).map(i, object.data.long.lowerAscii()).size() > 0"},
	{"found", "", "lists.range(100).map(i, object.data.long.findAll('a')).size() > 0"},
	{"foundLate", "", "object.data.long.findAll('a*b|a').size() > 0"},
	{"pattern", "", "!object.data.list.matches(lists.range(3000).map(i, 'x{1000}').join())"},
	{"patterns", "", "lists.range(200).all(i, !object.data.list.matches('(a?a?){999}' + string(i)))"},
	{"constantPattern", "", "!object.data.list.matches('" + strings.Repeat("a{1000}", 3000) + "')"},
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

func concatenated(n int) string {
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
	b.WriteString(strings.ReplaceAll(strings.ReplaceAll(policies, `operations: ["*"]`, "operations: [CREATE]"), "MESSAGE", "bad"))
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
	siegeTime = flag.Duration("siege", 10*time.Second, "how long the program is besieged")
	siegeSeed = flag.Uint64("siege-seed", 1, "of what is drawn by chance")
)

// TestSiege runs the program in the memory of its Pod, with policies and objects that want more. Every request is answered in time,
// none is let through, the program lives, and is ready.
func TestSiege(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	certs, dir := t.TempDir(), t.TempDir()
	trusted := pair(t, certs, time.Now())
	write(t, filepath.Join(dir, "p.yaml"), hostile())
	program := filepath.Join(t.TempDir(), "celgate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../celgate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log := &logged{}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--alone", "--policy-dir", dir, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
		"--cert", filepath.Join(certs, "tls.crt"), "--key", filepath.Join(certs, "tls.key"))
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=450MiB")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	confine(t, cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	address, ops := log.await(t, `listening address=(\S+)`), log.await(t, `metrics address=(\S+)`)

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "celgate.test"}}}
	long, list := strings.Repeat("a", 1_000_000), strings.Repeat("a", 2000)
	const timeout, slack = 2 * time.Second, 3 * time.Second // slack: the machine is shared with the attackers
	var latest atomic.Int64                                 // answer, after its deadline
	ask := func(phase, name string) string {
		start := time.Now()
		object, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{
			"long": long, "list": list, "q": "1e2147483647", "minus": "1e-2147483647",
		}})
		response, err := client.Post("https://"+address+"/"+phase+"?timeout="+timeout.String(), "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"anywhere","name":"`+name+`",`+
				`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"object":`+string(object)+`}}`))
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		took := time.Since(start)
		if took > timeout+slack {
			t.Errorf("%s: answered after %v", name, took)
		}
		latest.Store(max(latest.Load(), int64(took-timeout)))
		return response.Status + " " + string(text)
	}
	// One after the other, each is refused for what it takes.
	for _, a := range attacks {
		if got := ask("validate", a.name); strings.HasPrefix(got, "504") {
			t.Logf("%s: not refused before its deadline", a.name) // by a slow machine
		} else if !strings.Contains(got, `"allowed":false`) || !strings.Contains(got, "evaluation stopped") && !strings.Contains(got, "cost limit") {
			t.Errorf("%s: %.500s", a.name, got)
		}
	}
	if got := ask("mutate", "doubling"); !strings.Contains(got, "evaluation stopped") && !strings.Contains(got, "cost limit") {
		t.Errorf("doubling: %.500s", got)
	}
	// And all together.
	var next atomic.Int64
	var attackers sync.WaitGroup
	end := time.Now().Add(*siegeTime)
	ctx, stop := context.WithDeadline(t.Context(), end)
	defer stop()
	besieged := &target{address: address, trusted: trusted, counts: &atomic.Int64{}}
	for i, n := range nuisances {
		attackers.Go(func() {
			seed := rand.New(rand.NewPCG(*siegeSeed, uint64(i)))
			for ctx.Err() == nil {
				n.do(ctx, besieged, seed)
				wait(ctx, 20*time.Millisecond) // of two processors one is the server's
			}
		})
	}
	attackers.Go(func() {
		seed := rand.New(rand.NewPCG(*siegeSeed, 1<<32))
		for ctx.Err() == nil {
			if err := spoil(ctx, dir, seed); err != nil {
				t.Error(err)
				return
			}
			wait(ctx, 5*time.Second)
		}
	})
	var worst atomic.Int64 // of answers to those who mean it
	attackers.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			if got := ask("validate", "bad"); strings.HasPrefix(got, "200") && !strings.Contains(got, "denied request: bad") {
				t.Errorf("in the middle of it: %.500s", got)
			}
			worst.Store(max(worst.Load(), int64(time.Since(start))))
			wait(ctx, 50*time.Millisecond)
		}
	})
	for range 16 {
		attackers.Go(func() {
			for time.Now().Before(end) {
				i := int(next.Add(1)) % (len(attacks) + 1)
				var got string
				if i == len(attacks) {
					got = ask("mutate", "doubling")
				} else {
					got = ask("validate", attacks[i].name)
				}
				if strings.Contains(got, `"allowed":true`) || !strings.HasPrefix(got, "200") && !strings.HasPrefix(got, "503") && !strings.HasPrefix(got, "504") {
					t.Errorf("%d: %.500s", i, got)
				}
			}
		})
	}
	for time.Now().Before(end) {
		response, err := http.Get("http://" + ops + "/readyz?exclude=directory")
		if err != nil {
			t.Error(err)
			break
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("readiness is lost: %s %s", response.Status, text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	attackers.Wait()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && strings.HasPrefix(ask("validate", "good"), "503"); time.Sleep(100 * time.Millisecond) {
	} // what was abandoned ends
	if got := ask("validate", "bad"); !strings.Contains(got, "denied request: bad") {
		t.Errorf("afterwards: %.500s", got)
	}
	if got := ask("validate", "good"); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("afterwards: %.500s", got)
	}
	if peak := peakMemory(t, cmd.Process.Pid); peak > memoryLimit {
		t.Errorf("it took %d MiB", peak>>20)
	} else {
		t.Logf("%d hostile reviews and %d hostile connections and streams in %s (seed %d): the longest answer to others took %s, the latest of all came %s after its deadline, at most %d MiB",
			next.Load(), besieged.counts.Load(), *siegeTime, *siegeSeed, time.Duration(worst.Load()).Round(time.Millisecond),
			time.Duration(latest.Load()).Round(time.Millisecond), peak>>20)
	}
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
	if took := time.Since(start); took > 15*time.Second { // what was abandoned ends first
		t.Errorf("it ended %v after it was told to", took)
	}
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
	for _, c := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group := filepath.Join(c.root, fmt.Sprintf("celgate-siege-%d", pid))
		if os.Mkdir(group, 0o700) != nil {
			continue
		}
		t.Cleanup(func() {
			for range 50 { // it takes a moment until the process is gone
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
