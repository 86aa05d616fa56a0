package state_test

import (
	"context"
	"fmt"
	"log"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// A cluster of objects in memory answers the queries of an engine. Each engine can have its own.
func Example() {
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := state.New(types, map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "shop", "labels": map[string]any{"environment": "preview"}}})
	if err != nil {
		log.Fatal(err)
	}
	shop, err := cluster.Get(context.Background(), schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", "shop")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(shop["metadata"].(map[string]any)["labels"])
	engine, err := celgate.New(&policy.Set{}, celgate.Options{Types: types, Cluster: cluster})
	fmt.Println(engine != nil, err)
	// Output:
	// map[environment:preview kubernetes.io/metadata.name:shop]
	// true <nil>
}
