// Command server starts a kube-apiserver with etcd on loopback, prints the path of a kubeconfig and runs until it is
// interrupted:
//
//	go -C conformance run ./cmd/server
//	export KUBECONFIG=<the printed path>
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/celgate/celgate/conformance/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	minor := flag.String("minor", "", "of the kube-apiserver, such as 1.33; without it that of the module")
	plugins := flag.String("plugins", "", "admission plugins, separated by commas, to leave on: "+strings.Join(
		server.Disturbing, ","))
	kubeconfig := flag.String("kubeconfig", "", "also write the kubeconfig to this `file`")
	build := flag.Bool("build", false, "build the programs, print their paths and start nothing")
	flag.Parse()
	if *build {
		etcd, apiserver, err := server.Build(ctx, *minor)
		if err == nil {
			fmt.Println(etcd)
			fmt.Println(apiserver)
		}
		return err
	}
	options := server.Options{Minor: *minor, Args: flag.Args()}
	if *plugins != "" {
		options.Plugins = strings.Split(*plugins, ",")
	}
	s, err := server.Start(ctx, options)
	if err != nil {
		return err
	}
	defer s.Stop()
	if *kubeconfig != "" {
		content, err := os.ReadFile(s.Kubeconfig)
		if err != nil {
			return err
		}
		if err := os.WriteFile(*kubeconfig, content, 0o600); err != nil {
			return err
		}
		defer func() { _ = os.Remove(*kubeconfig) }() // of a server that has ended
	}
	fmt.Println(s.Kubeconfig)
	return s.Wait(ctx)
}
