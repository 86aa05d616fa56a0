// Command celgate decides, without a cluster, what the API server's admission policies would say.
package main

import (
	"os"

	"github.com/celgate/celgate/cmd/internal/cli"
	_ "github.com/celgate/celgate/cmd/internal/heap" // starts without collecting garbage
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
