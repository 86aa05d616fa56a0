package manifest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/celgate/celgate/manifest"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%[1]d
  namespace: team-%[2]d
  labels:
    app.kubernetes.io/name: web-%[1]d
    team: "a%[2]d"
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web-%[1]d
  template:
    metadata:
      labels:
        app: web-%[1]d
    spec:
      containers:
      - name: main
        image: registry.example.com/web:1.2.%[2]d
        ports:
        - containerPort: 8080
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits:
            memory: 256Mi
        securityContext:
          runAsNonRoot: true
          allowPrivilegeEscalation: false
`

// deployments returns a stream of n Deployments; 10,000 are 6 MB.
func deployments(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "---\n"+deployment, i, i%50)
	}
	return b.Bytes()
}

func benchmarkRead(b *testing.B, text []byte, want int) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		got := 0
		for _, problem := range manifest.Documents(bytes.NewReader(text), "f.yaml") {
			if problem != nil {
				b.Fatal(problem)
			}
			got++
		}
		if got != want {
			b.Fatalf("%d documents, want %d", got, want)
		}
	}
}

func BenchmarkDeployments(b *testing.B) { benchmarkRead(b, deployments(10_000), 10_000) }

// BenchmarkLibrary is the same with a tag in each document, which leaves it to the library.
func BenchmarkLibrary(b *testing.B) {
	text := bytes.ReplaceAll(deployments(10_000), []byte("replicas: 3"), []byte("replicas: !!int 3"))
	benchmarkRead(b, text, 10_000)
}

// BenchmarkList is one List with 10,000 Deployments.
func BenchmarkList(b *testing.B) {
	text := deployments(10_000)
	text = bytes.ReplaceAll(text, []byte("\n"), []byte("\n  "))
	text = bytes.ReplaceAll(text, []byte("  ---\n  apiVersion"), []byte("- apiVersion"))
	text = bytes.Replace(text, []byte("---\n  apiVersion"), []byte("apiVersion: v1\nkind: List\nitems:\n- apiVersion"),
		1)
	benchmarkRead(b, text, 10_000)
}
