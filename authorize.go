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

// authorizerValues holds the authorizer variables of one request. Both are for the request's own user and
// resource, whatever version a policy matched.
type authorizerValues struct {
	ctx            context.Context
	request        *Request
	cluster        Cluster
	user, resource ref.Val
	cached         *decisionCache
}

// decisions are those about the user of the request.
func (a *authorizerValues) decisions() *decisionCache {
	if a.cached == nil {
		a.cached = &decisionCache{ctx: a.ctx, authorizer: a.cluster.Authorizer()}
	}
	return a.cached
}

// userOf is the user of a request.
func userOf(req *Request) *user.DefaultInfo {
	return &user.DefaultInfo{Name: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups,
		Extra: req.UserInfo.Extra}
}

// permits reports what the user of the request may do. An error is no permission, as for allowed() of CEL.
func (a *authorizerValues) permits(p policy.Permission) bool {
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	decision, _, err := a.decisions().Authorize(a.ctx, authorizer.AttributesRecord{User: userOf(a.request),
		Verb: p.Verb, Namespace: p.Namespace, APIGroup: p.APIGroup, APIVersion: "*", Resource: resource,
		Subresource: subresource, Name: p.Name, ResourceRequest: true})
	return err == nil && decision == authorizer.DecisionAllow
}

// make makes both variables when one of them is first used: they share the decisions.
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

// A decisionCache asks about the same attributes once in a request, as the server does.
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

// Authorize answers from the cache or asks. A check ignores the context of the request, as on the server: one
// that was begun is finished. None is begun when nobody waits for the answer any more.
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
