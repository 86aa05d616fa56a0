package server

import (
	"context"
	"path/filepath"
	"strings"
)

var controllerManager = binary{"kube-controller-manager", "k8s.io/kubernetes",
	"k8s.io/kubernetes/cmd/kube-controller-manager"}

// StartControllers builds kube-controller-manager if it is missing, and starts it with the named controllers, each with
// its own service account. It ends with the server.
func (s *Server) StartControllers(ctx context.Context, names ...string) error {
	path, err := controllerManager.build(ctx)
	if err != nil {
		return err
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	s.controllers, err = startProcess(s.Folder, path,
		"--kubeconfig="+s.Kubeconfig, "--authentication-kubeconfig="+s.Kubeconfig,
		"--authorization-kubeconfig="+s.Kubeconfig, "--leader-elect=false", "--use-service-account-credentials=true",
		"--service-account-private-key-file="+filepath.Join(s.Folder, "service-account.key"),
		"--controllers="+strings.Join(names, ","), "--bind-address=127.0.0.1", "--secure-port="+ports[0],
		"--cert-dir="+filepath.Join(s.Folder, "controllers"), "--kube-api-qps=500", "--kube-api-burst=500")
	return err
}
