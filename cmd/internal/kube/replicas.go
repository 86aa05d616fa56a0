package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/schema"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

const (
	replicaLabel          = "policy.celgate.dev/replica"
	loadedAnnotation      = "policy.celgate.dev/loaded"
	certificateAnnotation = "policy.celgate.dev/certificate"
	fightsAnnotation      = "policy.celgate.dev/fights"

	replicaDuration = 30 * time.Second // after which a replica that says nothing is none

	// ReplicaRenewal is how often a replica is to report, even if nothing has changed.
	ReplicaRenewal = 10 * time.Second
)

// observed is a state of a Lease and when this replica saw it first. Clocks of other replicas are not trusted: a Lease
// has expired when it did not change for its duration.
type observed struct {
	version string
	at      time.Time
}

// Replicas tell each other what they have in force, each in a Lease of its own.
type Replicas struct {
	Client    *Client
	Namespace string
	Identity  string // of this one

	seen map[string]observed // by the name of the Lease
}

// A Report is what a replica says of itself.
type Report struct {
	Loaded      Loaded
	Certificate string // which state of the Secret with the certificate it has; empty: none
	Fights      []Fight
}

// A Fight is what one policy was seen to fight over with another one, or with itself.
type Fight struct {
	Policy string `json:"policy"`
	With   string `json:"with,omitempty"`
	Path   string `json:"path"`
	Of     string `json:"of"` // which policies these were when they fought
}

// Loaded is what a replica has in force: the generations of objects by a part of their uid.
type Loaded map[string]int64

// Has reports whether an object is in force as it is now.
func (l Loaded) Has(object map[string]any) bool {
	key, generation := loadedKey(object)
	return l[key] == generation
}

// Add adds an object as it is now.
func (l Loaded) Add(object map[string]any) {
	key, generation := loadedKey(object)
	l[key] = generation
}

func loadedKey(object map[string]any) (string, int64) {
	u := unstructured.Unstructured{Object: object}
	uid := string(u.GetUID())
	return uid[:min(len(uid), 8)], u.GetGeneration()
}

// Report says what this replica has in force and what certificate, and that it lives.
func (r *Replicas) Report(ctx context.Context, report Report) error {
	text, err := json.Marshal(report.Loaded)
	if err != nil {
		return err
	}
	fights := []byte(nil)
	if len(report.Fights) > 0 {
		if fights, err = json.Marshal(report.Fights); err != nil {
			return err
		}
	}
	_, err = r.Client.dynamic.Resource(leases).Namespace(r.Namespace).Apply(ctx, r.name(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{
				"name": r.name(), "namespace": r.Namespace,
				"labels": map[string]any{replicaLabel: "true", "app.kubernetes.io/managed-by": "celgate"},
				"annotations": map[string]any{
					loadedAnnotation:      string(text),
					certificateAnnotation: report.Certificate,
					fightsAnnotation:      string(fights),
				},
			},
			"spec": map[string]any{
				"holderIdentity": r.Identity, "leaseDurationSeconds": int64(replicaDuration / time.Second),
				"renewTime": metav1.NowMicro().UTC().Format(metav1.RFC3339Micro),
			},
		}}, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// Leave says that this replica ends.
func (r *Replicas) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.Client.dynamic.Resource(leases).
		Namespace(r.Namespace).
		Delete(ctx, r.name(), metav1.DeleteOptions{})
	// otherwise it expires
}

// name is that of the Lease: an identity may hold what a name must not.
func (r *Replicas) name() string {
	sum := sha256.Sum256([]byte(r.Identity))
	return "celgate-" + hex.EncodeToString(sum[:5])
}

// All returns what each replica that lives has reported. The Leases of others are removed. Only one replica calls it; a
// Lease that it has not seen before lives.
func (r *Replicas) All(ctx context.Context) ([]Report, error) {
	client := r.Client.dynamic.Resource(leases).Namespace(r.Namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: replicaLabel + "=true"})
	if err != nil {
		return nil, err
	}
	seen := map[string]observed{}
	var all []Report
	for _, lease := range list.Items {
		state := r.seen[lease.GetName()]
		if v := lease.GetResourceVersion(); state.version != v {
			state = observed{v, time.Now()}
		}
		if time.Since(state.at) > replicaDuration {
			version := lease.GetResourceVersion()
			err := client.Delete(ctx, lease.GetName(),
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return nil, err
			}
			continue
		}
		seen[lease.GetName()] = state
		loaded := Loaded{}
		_ = json.Unmarshal([]byte(lease.GetAnnotations()[loadedAnnotation]),
			&loaded) // what cannot be read is not in force
		report := Report{Loaded: loaded, Certificate: lease.GetAnnotations()[certificateAnnotation]}
		_ = json.Unmarshal([]byte(lease.GetAnnotations()[fightsAnnotation]), &report.Fights) // nor is it fought over
		all = append(all, report)
	}
	r.seen = seen
	return all, nil
}
