// Command helmchart makes the Helm chart of deploy/chart from the plain manifests of package deploy: parts that differ
// between installations become values, all others are copied.
//
//	go -C tools run ./helmchart
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/celgate/celgate/deploy"
)

const folder = "../deploy/chart"

func main() {
	if err := write(folder); err != nil {
		fmt.Fprintln(os.Stderr, "helmchart:", err)
		os.Exit(1)
	}
}

// A value is a place in the manifests that differs between installations.
type value struct {
	plain    string // the text there
	template string // the replacement in the chart
	times    int
}

var values = []value{
	{"namespace: celgate-system", "namespace: {{ .Release.Namespace | quote }}", 11},
	{"replicas: 2", "replicas: {{ .Values.replicas }}", 1},
	{"image: celgate\n", image, 1},
	{"--client-rate=2000 # of one API server", "--client-rate={{ .Values.clients.rate }} # of one API server", 1},
	{"        - --log-format=json\n", "        - --log-format=json\n" + clientFlags + "        {{- range .Values.args }}\n        - {{ . | quote }}\n        {{- end }}\n", 1},
	{"value: 400MiB", "value: {{ .Values.memory.target | quote }}", 1},
	{"requests: {cpu: 100m, memory: 128Mi}", "requests: {cpu: {{ .Values.cpu | quote }}, memory: {{ .Values.memory.request | quote }}}", 1},
	{"          capabilities: {drop: [ALL]}\n", "          capabilities: {drop: [ALL]}\n" + clientVolume, 1},
	{"  - ports: [{port: webhook}]\n", "  - ports: [{port: webhook}]\n" + apiServers, 1},
	{"limits: {memory: 512Mi}", "limits: {memory: {{ .Values.memory.limit | quote }}}", 1},
}

const image = `image: "{{ required "give image.repository: where you have pushed the image" .Values.image.repository }}` +
	`{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end }}"` + "\n"

const clientFlags = `        {{- if .Values.clients.secret }}
        - --client-ca=/etc/celgate/clients/ca.crt
        {{- with .Values.clients.names }}
        - {{ printf "--allowed-client-names=%s" (join "," .) | quote }}
        {{- end }}
        {{- end }}
`

const clientVolume = `        {{- if .Values.clients.secret }}
        volumeMounts: [{name: clients, mountPath: /etc/celgate/clients, readOnly: true}]
      volumes: [{name: clients, secret: {secretName: {{ .Values.clients.secret | quote }}, items: [{key: ca.crt, path: ca.crt}]}}]
        {{- end }}
`

const apiServers = `    {{- with .Values.apiServers }}
    from:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
    {{- end }}
`

const valuesFile = `# Where you have pushed the image of celgate-webhook (make image, or ko): no registry has one for everybody, so the repository must be
# given. Best with the digest, which nobody can change; it decides if there is a tag, too.
image:
  repository: "" # registry.example.com/celgate
  tag: ""
  digest: "" # sha256:...
replicas: 2
# Further flags of celgate-webhook.
args: []
# Who may ask. API servers show a certificate when their AdmissionConfiguration says so (docs/operations.md): then put who signs it into
# ca.crt of a Secret, and nobody else is answered.
clients:
  secret: ""
  # Common or DNS names of certificates; all that ca.crt signed by default.
  names: []
  # Requests a second of one client.
  rate: 2000
# Address ranges, as 10.0.0.0/28, of the API servers; requests are taken from everywhere by default.
apiServers: []
cpu: 100m
memory:
  request: 128Mi
  limit: 512Mi
  # Above it memory is given back more eagerly: somewhat below the limit.
  target: 400MiB
`

const chartFile = `apiVersion: v2
name: celgate
description: Kubernetes CEL admission policies for clusters that do not serve them
type: application
version: 0.1.0
kubeVersion: ">=1.25.0-0"
`

const namespaceEnd = "pod-security.kubernetes.io/enforce: restricted\n---\n"

// templates is the file of the chart that all manifests are in.
func templates() (string, error) {
	text := string(deploy.Server("celgate"))
	// Helm makes the namespace itself.
	_, text, found := strings.Cut(text, namespaceEnd)
	if !found {
		return "", errors.New("the manifests do not begin with a namespace")
	}
	for _, v := range values {
		if n := strings.Count(text, v.plain); n != v.times {
			return "", fmt.Errorf("%q is in the manifests %d times, not %d", v.plain, n, v.times)
		}
		text = strings.ReplaceAll(text, v.plain, v.template)
	}
	return "{{- /* Made from deploy/celgate.yaml by tools/helmchart. */ -}}\n" + text, nil
}

// write writes the chart into a folder.
func write(folder string) error {
	text, err := templates()
	if err != nil {
		return err
	}
	files := map[string]string{
		"Chart.yaml": chartFile, "values.yaml": valuesFile, "templates/celgate.yaml": text,
		"crds/celgate.yaml": string(deploy.Definitions()),
	}
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
