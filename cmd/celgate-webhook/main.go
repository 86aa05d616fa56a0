// Command celgate-webhook answers the admission webhooks of a cluster, as one of several replicas: it is celgate serve
// with an election of the replica that writes. The image holds it.
package main

import (
	"context"
	"os"

	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/celgate/celgate/cmd/internal/kube/election"
	"github.com/celgate/celgate/cmd/internal/serve"
)

func main() { os.Exit(cli.Webhook(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, elect)) }

func elect(ctx context.Context, r serve.Replica, lead func(context.Context)) error {
	candidate := &election.Candidate{Client: r.Cluster, Namespace: r.Namespace, Name: "celgate", Identity: r.Identity,
		Log: r.Log}
	return candidate.Lead(ctx, lead)
}
