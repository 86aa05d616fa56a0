package webhook

import (
	"errors"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// admitPolicy applies to an object of celgate's own kinds the write-time rules that kube-apiserver applies to the kind
// that it stands for, with the server's message.
func (a *answer) admitPolicy() (*celgate.Decision, error) {
	r := a.Request
	allowed := &celgate.Decision{Allowed: true, Object: r.Object}
	if a.Phase != Validating || r.Object == nil || r.SubResource != "" {
		return allowed, nil
	}
	if metadata, _ := r.Object["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil {
		return allowed, nil // as the server, which lets finalizers go from what has become invalid
	}
	p, b, err := policy.FromObject(Native(r.Object), nil)
	var undecodable *policy.DecodeError
	switch {
	case errors.As(err, &undecodable):
		return &celgate.Decision{Status: undecodable.Status()}, nil
	case err != nil:
		return nil, refuse(400, "%w", err)
	}
	set := &policy.Set{}
	if p != nil {
		set.Policies = append(set.Policies, p)
	} else {
		set.Bindings = append(set.Bindings, b)
	}
	engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		return nil, err
	}
	for _, rejected := range engine.Rejected() {
		return &celgate.Decision{Status: rejected.Status}, nil
	}
	return allowed, nil
}
