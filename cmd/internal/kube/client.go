// Package kube keeps an engine in step with a live cluster. It is the only package that talks to one.
//
// A [Client] is a connection; a [World] is a cluster as watches show it: the policies and bindings of celgate's own
// group, the kinds that the cluster serves, namespaces, and the params that policies name. A World is the
// celgate.Cluster of an engine. The leading replica, which package election determines, writes celgate's own objects
// (write.go): webhook configurations, the status of policies, certificates.
package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A Client is a connection to a cluster.
type Client struct {
	config    *rest.Config
	base      *url.URL
	http      *http.Client
	dynamic   dynamic.Interface
	namespace string
}

// Connect makes a client with a kubeconfig file and context; empty ones are found by the rules of kubectl. In a Pod and
// with neither it uses the Pod's service account. It does not send a request.
func Connect(kubeconfig, kubeContext string) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	config, err := loaded.ClientConfig() // falls back to the service account
	if err != nil {
		return nil, err
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "celgate"
	config.QPS = -1                           // unlimited: reads are waited for; the server's own flow control is fair
	config.WarningHandler = rest.NoWarnings{} // they concern versions of kinds that the user did not choose
	c := &Client{config: config, namespace: namespace}
	if c.base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, c.http); err != nil {
		return nil, err
	}
	return c, nil
}

// Contexts returns the names of the contexts of a kubeconfig, or of kubectl's default one; none if it cannot be read.
func Contexts(kubeconfig string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// Config returns a configuration for other clients of the same cluster.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Namespace returns the namespace of the context or of the Pod.
func (c *Client) Namespace() string { return c.namespace }

// Minor asks the server for its version, such as "1.37".
func (c *Client) Minor(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "/version", "application/json")
	if err != nil {
		return "", fmt.Errorf("read the version of the server: %w", err)
	}
	var version struct{ Major, Minor string }
	if err := json.Unmarshal(body, &version); err != nil {
		return "", fmt.Errorf("read the version of the server: %w: %.200s", err, body)
	}
	return version.Major + "." + strings.TrimSuffix(version.Minor, "+"), nil // "33+" on managed clusters
}
