package plugins

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/certs"
	"github.com/celgate/celgate/internal/tree"
)

const certificates = "certificates.k8s.io"

// may checks a permission of the user. If not all permissions are known, a missing one is unknown.
func (c *call) may(a authorizer.AttributesRecord) (allowed bool, reason string, err error) {
	a.User, a.ResourceRequest = c.User, true
	decision, reason, err := c.cluster.Authorizer().Authorize(c.ctx, a)
	return decision == authorizer.DecisionAllow, reason, err
}

// maySigner checks a permission on a signer, or on all signers of its domain
// (pkg/certauthorization/certauthorization.go).
func (c *call) maySigner(verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	return slices.ContainsFunc([]string{signer, domain + "/*"}, func(name string) bool {
		allowed, _, err := c.may(authorizer.AttributesRecord{Verb: verb, Name: name, APIGroup: certificates,
			APIVersion: "*", Resource: "signers"})
		return allowed && err == nil
	})
}

// requireSigner refuses the request of a user without a permission on a signer.
func (c *call) requireSigner(verb, signer, refusal string) error {
	switch {
	case c.maySigner(verb, signer):
		return nil
	case !c.complete:
		return c.leave(fmt.Sprintf("whether the user may %s for signer %s is not known", verb, signer))
	}
	return c.forbid(refusal, signer)
}

func signerOf(object map[string]any) string { return tree.Object(object).At("spec").Text("signerName") }

// checkApproval is plugin/pkg/admission/certificates/approval/admission.go.
func checkApproval(c *call) error {
	return c.requireSigner("approve", signerOf(c.Old), "user not permitted to approve requests with signerName %q")
}

// checkSigning is plugin/pkg/admission/certificates/signing/admission.go.
func checkSigning(c *call) error {
	was, is := tree.Object(c.Old).At("status"), tree.Object(c.Object).At("status")
	if equality.Semantic.DeepEqual(was["certificate"], is["certificate"]) &&
		tree.Equal(was.List("conditions"), is.List("conditions")) {
		return nil
	}
	return c.requireSigner("sign", signerOf(c.Old), "user not permitted to sign requests with signerName %q")
}

// checkAttest is plugin/pkg/admission/certificates/ctbattest/admission.go.
func checkAttest(c *call) error {
	signer := signerOf(c.Object)
	if signer == "" || c.Operation == update && changesOnlyOwners(c.Object, c.Old) {
		return nil
	}
	return c.requireSigner("attest", signer, "user not permitted to attest for signerName %q")
}

// changesOnlyOwners is IsOnlyMutatingGCFields of pkg/registry/rbac/helpers.go.
func changesOnlyOwners(object, old map[string]any) bool {
	without := func(object map[string]any) map[string]any {
		metadata := map[string]any{}
		for key, value := range tree.Object(object).Metadata() {
			if key != "ownerReferences" && key != "finalizers" && key != "managedFields" {
				metadata[key] = value
			}
		}
		return tree.Object(object).WithMetadata(metadata)
	}
	return tree.Equal(without(object), without(old))
}

const clientSigner = "kubernetes.io/kube-apiserver-client"

// checkSubject is plugin/pkg/admission/certificates/subjectrestriction/admission.go.
func checkSubject(c *call) error {
	if !certs.Known {
		return c.leave("this program does not read certificate requests")
	}
	asked, err := organizations(tree.Object(c.Object).At("spec").Text("request"))
	if err != nil {
		return c.forbid("failed to parse CSR: %v", err)
	}
	if slices.Contains(asked, "system:masters") {
		return c.forbid("use of %s signer with system:masters group is not allowed", clientSigner)
	}
	return nil
}

// organizations returns those that a request asks for, as ParseCSR of pkg/apis/certificates/helpers.go reads it.
func organizations(text string) ([]string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return certs.Organizations(block.Bytes)
}

// concernsOwners reports a request that changes the owners of its object.
func concernsOwners(r *Request) bool {
	if r.Object == nil || r.Operation != create && r.Operation != update ||
		r.Resource.GroupResource() == (apischema.GroupResource{Resource: "pods"}) && r.SubResource == "status" {
		return false
	}
	return !tree.Equal(tree.Object(r.Object).Metadata().List("ownerReferences"),
		tree.Object(r.Old).Metadata().List("ownerReferences"))
}

// checkOwners is plugin/pkg/admission/gc/gc_admission.go.
func checkOwners(c *call) error {
	if c.Operation != create {
		allowed, reason, err := c.may(authorizer.AttributesRecord{Verb: "delete", Namespace: c.Namespace,
			APIGroup: c.Resource.Group, APIVersion: c.Resource.Version, Resource: c.Resource.Resource,
			Subresource: c.SubResource, Name: c.Name})
		switch {
		case allowed:
		case !c.complete:
			return c.leave("whether the user may delete the object is not known")
		default:
			return c.forbid("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err)
		}
	}
	blocking, err := c.newBlockingOwners()
	if err != nil || len(blocking) == 0 {
		return err
	}
	finalizers := authorizer.AttributesRecord{Verb: "update", Subresource: "finalizers"}
	anything := finalizers
	anything.APIGroup, anything.APIVersion, anything.Resource, anything.Name = "*", "*", "*", "*"
	if allowed, _, _ := c.may(anything); allowed {
		return nil
	}
	for _, owner := range blocking {
		kind := apischema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		of := c.types.ResourceFor(kind)
		switch {
		case of == nil && !c.complete:
			return c.leave("kind " + kind.Kind + " is not known")
		case of == nil:
			return c.forbid("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %v",
				owner.APIVersion, owner.Kind, &meta.NoKindMatchError{GroupKind: kind.GroupKind(),
					SearchedVersions: []string{kind.Version}})
		}
		attributes := finalizers
		attributes.APIGroup, attributes.APIVersion = of.Group, of.Version
		attributes.Resource = of.GroupVersionResource.Resource
		if attributes.Name = owner.Name; of.Namespaced {
			attributes.Namespace = c.Namespace
		}
		allowed, reason, err := c.may(attributes)
		switch {
		case allowed:
		case !c.complete:
			return c.leave("whether the user may set finalizers on " + owner.Kind + " " + owner.Name + " is not known")
		default:
			return c.forbid("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v",
				reason, err)
		}
	}
	return nil
}

// newBlockingOwners are the owners whose deletion waits for the object and did not before.
func (c *call) newBlockingOwners() (blocking []metav1.OwnerReference, err error) {
	owners := func(object map[string]any) (metav1.ObjectMeta, error) {
		var of metav1.ObjectMeta
		err := c.read(map[string]any{"ownerReferences": tree.Object(object).Metadata().List("ownerReferences")}, &of)
		return of, err
	}
	is, err := owners(c.Object)
	if err != nil {
		return nil, err
	}
	was, err := owners(c.Old)
	if err != nil {
		return nil, err
	}
	blocks := func(o *metav1.OwnerReference) bool { return o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion }
	for i := range is.OwnerReferences {
		owner := &is.OwnerReferences[i]
		isOwner := func(o metav1.OwnerReference) bool { return o.UID == owner.UID }
		before := slices.IndexFunc(was.OwnerReferences, isOwner)
		if blocks(owner) && (before < 0 || !blocks(&was.OwnerReferences[before])) {
			blocking = append(blocking, *owner)
		}
	}
	return blocking, nil
}
