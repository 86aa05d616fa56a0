package celgate

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// authorizerValues holds the authorizer variables of one request. Both are for the request's own user and resource,
// even if a policy matched another version.
type authorizerValues struct {
	ctx            context.Context
	request        *Request
	cluster        Cluster
	user, resource ref.Val
	cached         *decisionCache
}

// decisions returns the cache of decisions about the user of the request.
func (a *authorizerValues) decisions() *decisionCache {
	if a.cached == nil {
		a.cached = &decisionCache{ctx: a.ctx, authorizer: a.cluster.Authorizer()}
	}
	return a.cached
}

// userOf returns the user of a request.
func userOf(req *Request) *user.DefaultInfo {
	u := &user.DefaultInfo{Name: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups}
	if len(req.UserInfo.Extra) > 0 {
		u.Extra = make(map[string][]string, len(req.UserInfo.Extra))
		for key, values := range req.UserInfo.Extra {
			u.Extra[key] = values
		}
	}
	return u
}

// permits reports whether the user of the request has a permission. As in CEL's allowed(), an error counts as false.
func (a *authorizerValues) permits(p policy.Permission) bool {
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	decision, _, err := a.decisions().Authorize(a.ctx, authorizer.AttributesRecord{User: userOf(a.request),
		Verb: p.Verb, Namespace: p.Namespace, APIGroup: p.APIGroup, APIVersion: "*", Resource: resource,
		Subresource: subresource, Name: p.Name, ResourceRequest: true})
	return err == nil && decision == authorizer.DecisionAllow
}

// make makes both variables when one of them is first used: they share a cache.
func (a *authorizerValues) make() {
	r := a.request
	who, cached := userOf(r), a.decisions()
	a.user = library.NewAuthorizerVal(who, cached)
	a.resource = library.NewResourceAuthorizerVal(who, cached, requestResource{r, r.target()})
}

// userAuthorizer is the variable authorizer.
type userAuthorizer struct{ *authorizerValues }

// Resolve makes the variable.
func (a userAuthorizer) Resolve() ref.Val {
	if a.user == nil {
		a.make()
	}
	return a.user
}

// resourceAuthorizer is the variable authorizer.requestResource.
type resourceAuthorizer struct{ *authorizerValues }

// Resolve makes the variable.
func (a resourceAuthorizer) Resolve() ref.Val {
	if a.user == nil {
		a.make()
	}
	return a.resource
}

// requestResource presents a request to authorizer.requestResource.
type requestResource struct {
	*Request
	made target
}

func (r requestResource) GetName() string { return r.Name }

func (r requestResource) GetNamespace() string { return r.Namespace }

func (r requestResource) GetResource() schema.GroupVersionResource { return r.made.Resource }

func (r requestResource) GetSubresource() string { return r.made.SubResource }

// A decisionCache asks once for equal attributes in a request, like the server.
type decisionCache struct {
	ctx        context.Context // of the request
	authorizer authorizer.UnconditionalAuthorizer
	decisions  map[string]authorized
}

type authorized struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// Authorize answers from the cache or asks the authorizer. As on the server, a started check ignores the end of the
// request's context, and none is started after it.
func (c *decisionCache) Authorize(_ context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	fields, fieldsErr := attr.GetFieldSelector()
	labels, labelsErr := attr.GetLabelSelector()
	who := attr.GetUser()
	key, err := json.Marshal([]any{
		who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(),
		attr.GetVerb(), attr.GetNamespace(), attr.GetAPIGroup(), attr.GetAPIVersion(), attr.GetResource(),
		attr.GetSubresource(),
		attr.GetName(), attr.GetPath(), attr.IsResourceRequest(), fields, fieldsErr != nil, labels, labelsErr != nil,
	})
	if err != nil {
		a := c.ask(attr)
		return a.decision, a.reason, a.err
	}
	a, known := c.decisions[string(key)]
	if !known {
		a = c.ask(attr)
		if c.decisions == nil {
			c.decisions = map[string]authorized{}
		}
		c.decisions[string(key)] = a
	}
	return a.decision, a.reason, a.err
}

func (c *decisionCache) ask(attr authorizer.Attributes) authorized {
	if err := c.ctx.Err(); err != nil {
		return authorized{authorizer.DecisionNoOpinion, "", err}
	}
	return authorize(context.WithoutCancel(c.ctx), c.authorizer, attr)
}

// authorize asks an authorizer, which may wait for a server.
func authorize(ctx context.Context, by authorizer.UnconditionalAuthorizer, attr authorizer.Attributes) (a authorized) {
	bound.Wait(ctx, func() { a.decision, a.reason, a.err = by.Authorize(ctx, attr) })
	return a
}
