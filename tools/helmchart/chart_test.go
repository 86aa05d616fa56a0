package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celgate/celgate/deploy"
)

// TestChart renders the chart with Helm: with its default values and an image, the result is the output of celgate
// install, without the namespace.
func TestChart(t *testing.T) {
	rendered, definitions := render(t, "celgate-system",
		map[string]any{"image": map[string]any{"repository": "celgate"}})
	all := documents(t, slices.Concat(definitions, []byte("\n---\n"), []byte(rendered)))
	want := documents(t, slices.Concat(deploy.Definitions(), []byte("---\n"), deploy.Server("celgate")))
	want = slices.DeleteFunc(want, func(tree map[string]any) bool { return tree["kind"] == "Namespace" })
	if diff := cmp.Diff(want, all); diff != "" || len(all) < 15 {
		t.Errorf("%d documents: %s", len(all), diff)
	}

	rendered, _ = render(t, "elsewhere", map[string]any{
		"image":    map[string]any{"repository": "example.com/celgate", "tag": "1", "digest": "sha256:0123"},
		"replicas": 3, "args": []any{"--log-level=debug"}, "memory": map[string]any{"limit": "1Gi", "target": "900MiB"},
		"clients":    map[string]any{"secret": "api-servers", "names": []any{"kube-apiserver", "other"}, "rate": 50},
		"apiServers": []any{"10.0.0.0/28"},
	})
	for _, text := range []string{"celgate-system", "512Mi", "400MiB", "image: celgate"} {
		if strings.Contains(rendered, text) {
			t.Errorf("%q is still in what is rendered", text)
		}
	}
	for _, text := range []string{`image: "example.com/celgate:1@sha256:0123"`, "replicas: 3", `- "--log-level=debug"`,
		`limits: {memory: "1Gi"}`, `value: "900MiB"`,
		"- --client-ca=/etc/celgate/clients/ca.crt", `- "--allowed-client-names=kube-apiserver,other"`,
		"- --client-rate=50 ", `secretName: "api-servers"`,
		`- ipBlock: {cidr: "10.0.0.0/28"}`} {
		if !strings.Contains(rendered, text) {
			t.Errorf("%q is not in what is rendered", text)
		}
	}
	documents(t, []byte(rendered))

	if _, _, err := renderChart(t, "celgate-system", nil); err == nil ||
		!strings.Contains(err.Error(), "give image.repository") {
		t.Errorf("a chart without an image: %v", err)
	}
	for want, image := range map[string]map[string]any{
		`"a/b:1.2"`:         {"repository": "a/b", "tag": "1.2"},
		`"a/b@sha256:0123"`: {"repository": "a/b", "digest": "sha256:0123"},
	} {
		if rendered, _ := render(t, "celgate-system", map[string]any{"image": image}); !strings.Contains(rendered,
			"image: "+want+"\n") {
			t.Errorf("no image %s", want)
		}
	}
}

// render returns the manifests and definitions that Helm renders from the chart.
func render(t *testing.T, namespace string, values map[string]any) (string, []byte) {
	t.Helper()
	rendered, definitions, err := renderChart(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return rendered, definitions
}

func renderChart(t *testing.T, namespace string, values map[string]any) (string, []byte, error) {
	t.Helper()
	chart, err := loader.Load("../" + folder) // from the folder of the test
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: "celgate", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, all)
	var definitions []byte
	for _, crd := range chart.CRDObjects() {
		definitions = append(definitions, crd.File.Data...)
	}
	return files["celgate/templates/celgate.yaml"], definitions, err
}

func documents(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var all []map[string]any
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var tree map[string]any
		err := decoder.Decode(&tree)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if tree != nil {
			all = append(all, tree)
		}
	}
}
