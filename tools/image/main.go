// Command image builds the container image of celgate-webhook with ko, as .ko.yaml says, into bin/image, an OCI image
// layout:
//
//	go -C tools run ./image -platforms linux/amd64,linux/arm64
//
// It needs Go and a module proxy, and no registry: the image is one static program on an empty base, and ko finds that
// in its cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	ko = "github.com/google/ko@v0.19.1"

	// folder is relative to the root of the repository: ko takes few characters in a path.
	folder = "bin/image"

	// user is an unprivileged user, the same as in the Deployment.
	user = "65532:65532"
)

func main() {
	platforms := flag.String("platforms", "linux/"+runtime.GOARCH, "of the image, separated by commas")
	flag.Parse()
	if _, err := build(context.Background(), "..", strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(folder)
}

// build builds the image of the repository at root, and returns the path of its layout.
func build(ctx context.Context, root string, platforms []string) (string, error) {
	path := filepath.Join(root, folder)
	if err := os.RemoveAll(path); err != nil { // ko adds to a layout
		return "", err
	}
	cache, err := os.MkdirTemp("", "celgate-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(cache)
	base, err := writeBase(cache, platforms)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ko, "build", "--push=false", "--sbom=none",
		"--oci-layout-path="+folder,
		"--platform="+strings.Join(platforms, ","),
		"--image-user="+user,
		"--image-label=org.opencontainers.image.title=celgate",
		"--image-label=org.opencontainers.image.description=Kubernetes CEL admission policies outside kube-apiserver",
		"--image-label=org.opencontainers.image.licenses=Apache-2.0",
		"./cmd/celgate-webhook",
	)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KO_DEFAULTBASEIMAGE="+base, "KOCACHE="+cache)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ko: %w\n%s", err, out)
	}
	return path, nil
}

// writeBase writes an empty image for each platform into the layout in which ko keeps bases, and returns its reference.
func writeBase(cache string, platforms []string) (string, error) {
	images, err := layout.Write(filepath.Join(cache, "img"), empty.Index)
	if err != nil {
		return "", err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return "", err
		}
		image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
			types.OCIConfigJSON), &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
			RootFS: v1.RootFS{Type: "layers"},
		},
		)
		if err != nil {
			return "", err
		}
		if err := images.AppendImage(image); err != nil { // where ko expects it
			return "", err
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if err := images.AppendIndex(index); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return "scratch@" + digest.String(), nil
}
