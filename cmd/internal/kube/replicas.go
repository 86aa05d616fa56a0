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

	replicaDuration = 30 * time.Second // a replica that has not reported for so long does not count

	// ReplicaRenewal is the longest time between two reports of a replica.
	ReplicaRenewal = 10 * time.Second
)

// observed is a state of a Lease and the time at which this replica first saw it. Clocks of other replicas are not
// trusted: a Lease has expired when it has not changed for its duration.
type observed struct {
	version string
	at      time.Time
}

// Replicas tell each other which policies they have in force, each in a Lease of its own.
type Replicas struct {
	Client    *Client
	Namespace string
	Identity  string // of this replica

	seen map[string]observed // by the name of the Lease
}

// A Report is the state of one replica.
type Report struct {
	Loaded      Loaded
	Certificate string // the state of the certificate's Secret that it has; empty: none
	Fights      []Fight
}

// A Fight is an observed fight between two policies, or of one with itself, over a field.
type Fight struct {
	Policy string `json:"policy"`
	With   string `json:"with,omitempty"`
	Path   string `json:"path"`
	Of     string `json:"of"` // the versions of these policies at that time
}

// Loaded is what a replica has in force: the generations of objects, by a part of their uid.
type Loaded map[string]int64

// Has reports whether the present version of an object is in force.
func (l Loaded) Has(object map[string]any) bool {
	key, generation := loadedKey(object)
	return l[key] == generation
}

// Add adds the present version of an object.
func (l Loaded) Add(object map[string]any) {
	key, generation := loadedKey(object)
	l[key] = generation
}

func loadedKey(object map[string]any) (string, int64) {
	u := unstructured.Unstructured{Object: object}
	uid := string(u.GetUID())
	return uid[:min(len(uid), 8)], u.GetGeneration()
}

// Report publishes the state of this replica, and that it is alive.
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

// name returns the name of the Lease: an identity may hold characters that a name must not.
func (r *Replicas) name() string {
	sum := sha256.Sum256([]byte(r.Identity))
	return "celgate-" + hex.EncodeToString(sum[:5])
}

// All returns the reports of the living replicas, and removes the Leases of others. Only one replica calls it; a Lease
// that it sees for the first time counts as alive.
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
			&loaded) // unreadable: nothing is in force
		report := Report{Loaded: loaded, Certificate: lease.GetAnnotations()[certificateAnnotation]}
		_ = json.Unmarshal([]byte(lease.GetAnnotations()[fightsAnnotation]), &report.Fights) // unreadable: no fights
		all = append(all, report)
	}
	r.seen = seen
	return all, nil
}
