package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A Call is one HTTP request of the user, or of another user in whose name it acts.
type Call struct {
	Method      string
	Path        string // such as /api/v1/namespaces/default/pods
	Query       url.Values
	Body        any    // sent as JSON; nil sends nothing
	ContentType string // application/json if empty
	Accept      string // likewise

	User   string // whom to impersonate; empty for none
	UID    string
	Groups []string
	Extra  map[string]authenticationv1.ExtraValue
}

// Apply is a call that creates an object or updates it to a tree.
func Apply(path string, tree map[string]any) Call {
	return Call{
		Method: http.MethodPatch, Path: path, Body: tree, ContentType: "application/apply-patch+yaml",
		Query: url.Values{"fieldManager": {"test"}, "force": {"true"}},
	}
}

// An Answer is the answer of the server.
type Answer struct {
	Code     int
	Body     []byte
	Warnings []string // texts of the Warning headers, in order
	AuditID  string   // auditID of the event in the audit log
}

// Object is the body as a JSON tree, or an error if it is none. Integers are int64.
func (a *Answer) Object() (map[string]any, error) {
	var tree map[string]any
	if err := utiljson.Unmarshal(a.Body, &tree); err != nil {
		return nil, fmt.Errorf("answer %d: %w: %.200s", a.Code, err, a.Body)
	}
	return tree, nil
}

// Status is the status of a refused request, nil if the request succeeded.
func (a *Answer) Status() *metav1.Status {
	if a.Code < 400 {
		return nil
	}
	var status metav1.Status
	if err := json.Unmarshal(a.Body, &status); err != nil || status.Kind != "Status" {
		return &metav1.Status{Status: metav1.StatusFailure, Code: int32(a.Code), Message: string(a.Body)}
	}
	return &status
}

// Do sends a call. An error means that the server did not answer.
func (s *Server) Do(ctx context.Context, call Call) (*Answer, error) {
	var body io.Reader
	if call.Body != nil {
		raw, err := json.Marshal(call.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	target := s.URL + call.Path
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	request.Header.Set("Accept", cmp.Or(call.Accept, "application/json"))
	if body != nil {
		contentType := call.ContentType
		if contentType == "" {
			contentType = "application/json"
		}
		request.Header.Set("Content-Type", contentType)
	}
	if call.User != "" {
		request.Header.Set("Impersonate-User", call.User)
		if call.UID != "" {
			request.Header.Set("Impersonate-Uid", call.UID)
		}
		for _, group := range call.Groups {
			request.Header.Add("Impersonate-Group", group)
		}
		for key, values := range call.Extra {
			for _, value := range values {
				request.Header.Add("Impersonate-Extra-"+url.PathEscape(key), value)
			}
		}
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := &Answer{Code: response.StatusCode, AuditID: response.Header.Get("Audit-Id")}
	if answer.Body, err = io.ReadAll(response.Body); err != nil {
		return nil, fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
	}
	warnings, errs := utilnet.ParseWarningHeaders(response.Header.Values("Warning"))
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s %s: warning headers %s: %v", call.Method, call.Path,
			strings.Join(response.Header.Values("Warning"), "; "), errs)
	}
	for _, warning := range warnings {
		answer.Warnings = append(answer.Warnings, warning.Text)
	}
	return answer, nil
}

// CreatorsOf returns the users in the audit log who created objects with a name; with "", objects with generated names.
func (s *Server) CreatorsOf(resource, namespace, name string) ([]string, error) {
	text, err := os.ReadFile(s.AuditLog)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for line := range bytes.Lines(text) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Namespace, Name string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			continue // the last line may be half written
		}
		of := event.ObjectRef
		if event.Verb == "create" && of.Resource == resource && of.Namespace == namespace && of.Name == name {
			found[event.User.Username] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
