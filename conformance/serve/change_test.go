package serve

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// policyPath is where celgate's own validating policies are.
const policyPath = "/apis/policy.celgate.dev/v1/validatingadmissionpolicies"

// TestFailurePolicyChanges changes the failurePolicy of a policy under load, which moves it to another webhook: it is
// in force before, after and meanwhile.
func TestFailurePolicyChanges(t *testing.T) {
	startManaged(t, 2)
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, 4, 400, func() {
		for i := range 10 {
			failurePolicy := []string{"Ignore", "Fail"}[i%2]
			good(t, do(t, server.Call{
				Method: http.MethodPatch, Path: policyPath + "/no-passwords",
				ContentType: "application/merge-patch+json",
				Body:        map[string]any{"spec": map[string]any{"failurePolicy": failurePolicy}},
			}))
			time.Sleep(700 * time.Millisecond)
		}
	})
}

// TestConfigurations waits for the rule of a new policy in the configuration, which must appear within two seconds, and
// checks the settings of every webhook.
func TestConfigurations(t *testing.T) {
	startManaged(t, 2)
	configuration := func() string {
		return string(do(t, server.Call{Method: http.MethodGet,
			Path: webhookPath + "validatingwebhookconfigurations/celgate"}).Body)
	}
	eventually(t, 10*time.Second, func() string {
		return map[bool]string{false: "no configuration"}[strings.Contains(configuration(), "policies.celgate.dev")]
	})
	for i := range 3 {
		text := strings.NewReplacer("no-passwords", fmt.Sprintf("rule-%d", i), "name: label",
			fmt.Sprintf("name: label-%d", i), "policyName: label", fmt.Sprintf("policyName: label-%d", i),
			"configmaps", []string{"endpoints", "podtemplates", "limitranges"}[i],
			"matchConstraints:", "matchConstraints:\n    namespaceSelector: {matchLabels: {team: front}}").
			Replace(policies)
		inForce(t, text)
		start := time.Now()
		eventually(t, 2*time.Second, func() string {
			if text := configuration(); !strings.Contains(text,
				[]string{"endpoints", "podtemplates", "limitranges"}[i]) {
				return "after two seconds: " + text
			}
			return ""
		})
		t.Logf("a rule after %s", time.Since(start))
	}
	for _, want := range []string{
		`"namespaceSelector":{"matchLabels":{"team":"front"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["celgate-system"]}]}`,
		`"failurePolicy":"Fail"`, `"matchPolicy":"Equivalent"`, `"timeoutSeconds":10`,
	} {
		if text := configuration(); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	// celgate reverts changes by others, even if the whole configuration was changed.
	good(t, do(t, server.Call{Method: http.MethodDelete,
		Path: webhookPath + "validatingwebhookconfigurations/celgate"}))
	eventually(t, 40*time.Second, func() string {
		return map[bool]string{false: "it does not come back"}[strings.Contains(configuration(), "limitranges")]
	})
}

// TestRebind stops and restarts the watch of params: changes in the meantime take effect at once.
func TestRebind(t *testing.T) {
	startManaged(t, 1)
	const params = "/api/v1/namespaces/default/configmaps"
	limit := func(name, n string) {
		good(t, apply(t, params, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name}, "data": map[string]any{"max": n}}))
	}
	limit("limit", "1")
	t.Cleanup(func() { remove(t, params+"/limit") })
	inForce(t, limits)
	awaitDenial(t, "denied request: at most 1", func() *server.Answer { return deployment(t, 100) })
	const path = "/apis/policy.celgate.dev/v1/"
	for i := 2; i < 7; i++ {
		remove(t, path+"validatingadmissionpolicybindings/limit")
		remove(t, path+"validatingadmissionpolicies/limit")
		awaitDenial(t, "", func() *server.Answer { return deployment(t, 100) })
		limit("limit", fmt.Sprint(i))
		for _, tree := range toOwnGroup(t, limits) {
			good(t, apply(t, path+resources[tree["kind"].(string)], tree))
		}
		first := ""
		eventually(t, 10*time.Second, func() string {
			status := deployment(t, 100).Status()
			if status == nil {
				return "allowed"
			}
			first = status.Message
			return ""
		})
		if !strings.HasSuffix(first, fmt.Sprintf("at most %d", i)) {
			t.Errorf("the first answer is %q, the param says %d", first, i)
		}
	}

	// A binding that names another param is about that from its first answer on.
	limit("other", "50")
	t.Cleanup(func() { remove(t, params+"/other") })
	binding := toOwnGroup(t, strings.ReplaceAll(limits, "paramRef: {name: limit,", "paramRef: {name: other,"))[1]
	good(t, apply(t, path+"validatingadmissionpolicybindings", binding))
	eventually(t, 10*time.Second, func() string {
		switch message := deployment(t, 100).Status().Message; {
		case strings.HasSuffix(message, "at most 50"):
			return ""
		case strings.HasSuffix(message, "at most 6"):
			return message
		default:
			t.Fatal(message)
			return ""
		}
	})
}

// TestDirectoryBeside serves policies of a directory and of a cluster: of two policies with the same name the one of
// the directory takes effect, and the status of the other one reports it.
func TestDirectoryBeside(t *testing.T) {
	r := startManaged(t, 0)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "policies.yaml"),
		[]byte(strings.ReplaceAll(policies, "passwords belong into Secrets", "the directory says no")))
	r.args = append(r.args, "--policy-dir="+folder)
	r.startReady(t)
	inForce(t, policies)
	inForce(t, limits)
	awaitDenial(t, "denied request: the directory says no",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	awaitDenial(t, "parameterNotFoundAction", func() *server.Answer { return deployment(t, 1) })
	eventually(t, 40*time.Second, func() string {
		if text, _ := status(t, "validatingadmissionpolicies", "no-passwords"); !strings.Contains(text,
			"reason: Directory\n  status: \"False\"\n  type: Ready\n") {
			return text
		}
		if text, _ := status(t, "validatingadmissionpolicies", "limit"); !strings.Contains(text, "reason: InForce\n") {
			return text
		}
		return ""
	})
	// The remaining policy is in another file, as with a ConfigMap: a shorter version of the same file would count as
	// half written.
	left := strings.Join(strings.Split(policies, "---")[:2], "---") // the mutating one
	write(t, filepath.Join(folder, "new"), []byte(left))
	if err := os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, "policies.yaml")); err != nil {
		t.Fatal(err)
	}
	awaitDenial(t, "denied request: passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
}

// TestRenewal gives replicas that manage their certificate one that is due for renewal, under load: the leader renews
// it, all replicas use the new one, and every request is answered.
func TestRenewal(t *testing.T) {
	r := startManaged(t, 0)
	r.args = slices.DeleteFunc(r.args, func(arg string) bool {
		return strings.HasPrefix(arg, "--cert=") || strings.HasPrefix(arg, "--key=") || strings.HasPrefix(arg, "--ca=")
	})
	r.startReady(t)
	r.startReady(t)
	const path = "/api/v1/namespaces/celgate-system/secrets/celgate"
	t.Cleanup(func() { remove(t, path) })
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })

	tree, err := do(t, server.Call{Method: http.MethodGet, Path: path}).Object()
	if err != nil {
		t.Fatal(err)
	}
	data := tree["data"].(map[string]any)
	member := func(name string) []byte {
		text, err := base64.StdEncoding.DecodeString(data[name].(string))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	own, err := tls.X509KeyPair(member("ca.crt"), member("ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: own.PrivateKey.(*ecdsa.PrivateKey), certificate: own.Leaf, PEM: member("ca.crt"),
		life: 20 * time.Minute}
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	a.issue(t, cert, key)
	for name, file := range map[string]string{"tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[name] = base64.StdEncoding.EncodeToString(text)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM)
	serves := func(g *gate) *x509.Certificate {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(g.URL, "https://"),
			&tls.Config{RootCAs: pool, ServerName: "celgate.celgate-system.svc"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	before := map[*gate]*x509.Certificate{}
	for _, g := range r.gates {
		before[g] = serves(g)
	}
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, 2, 100, func() {
		good(t, do(t, server.Call{Method: http.MethodPut, Path: path, Body: tree}))
		for _, g := range r.gates {
			eventually(t, time.Minute, func() string {
				now := serves(g)
				switch left := time.Until(now.NotAfter); {
				case now.Equal(before[g]):
					return "the certificate of before is in use"
				case left < 80*24*time.Hour:
					return fmt.Sprintf("the certificate is good for %s", left)
				}
				return ""
			})
		}
	})
	for what, n := range l.failed {
		t.Errorf("%d times: %s", n, what)
	}
}

// TestUnchecked stores a policy before celgate could be called: it is left out, its status gives the reason in the
// server's words, and the others are in force.
func TestUnchecked(t *testing.T) {
	installDefinitions(t)
	inForce(
		t,
		strings.NewReplacer(
			"object.spec.replicas <=",
			"object.spec.replicas <==", // without params: those are withheld
			"  paramKind: {apiVersion: v1, kind: ConfigMap}\n", "", "int(params.data.max)", "5",
			`'"at most " + params.data.max'`, `'"at most 5"'`,
			"  paramRef: {name: limit, namespace: default, parameterNotFoundAction: Deny}\n",
			"",
		).Replace(limits),
	)
	inForce(t, policies)
	startManaged(t, 1)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	good(t, deployment(t, 1))
	eventually(t, 10*time.Second, func() string {
		text, _ := status(t, "validatingadmissionpolicies", "limit")
		for _, want := range []string{"compilation failed: ERROR: <input>:1:",
			"reason: Invalid\n  status: \"False\"\n  type: Compiled\n",
			"reason: Invalid\n  status: \"False\"\n  type: Ready\n"} {
			if !strings.Contains(text, want) {
				return text
			}
		}
		return ""
	})
	if text := string(do(t, server.Call{Method: http.MethodGet,
		Path: webhookPath + "validatingwebhookconfigurations/celgate"}).Body); strings.Contains(text, "deployments") {
		t.Error("the API server asks for a policy that is not in force: " + text)
	}
}
