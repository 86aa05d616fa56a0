package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/deploy"
)

// mostMiB is how large the image may be to pull.
const mostMiB = 19

// TestImage builds the image and looks into it: one static program, which does not belong to root and
// needs nothing beside it.
func TestImage(t *testing.T) {
	folder, err := build(t.Context(), "../..", []string{"linux/" + runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	image := onlyImage(t, folder)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	is := config.Config
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || len(is.Entrypoint) != 1 ||
		is.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%+v", config)
	}
	if uid, _, _ := strings.Cut(is.User, ":"); uid == "" ||
		!bytes.Contains(deploy.Server("celgate"), []byte("runAsUser: "+uid+",")) {
		t.Errorf("user %q is not that of the Deployment", is.User)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, layer := range layers {
		n, err := layer.Size()
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	t.Logf("%d bytes to pull", size)
	if size > mostMiB<<20 {
		t.Errorf("%d bytes are more than %d MiB", size, mostMiB)
	}

	root := t.TempDir()
	if files := unpack(t, image, root); len(files) != 1 || files[0] != is.Entrypoint[0] {
		t.Fatalf("files %q, entrypoint %q", files, is.Entrypoint)
	}
	program, err := elf.Open(filepath.Join(root, is.Entrypoint[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run it in a root of its own")
	}
	for _, way := range []string{root, filepath.Dir(root)} { // as the image's user
		if err := os.Chmod(way, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, try := range []struct {
		args string
		code int
		want string
	}{
		{"--version", 0, "kubernetes 1."},
		{"--help", 0, "--service NAME"},
		{"serve", 2, "hint: leave it out"}, // as the manifests of the image before it had
		{strings.Join(arguments(t), " "), 2, "celgate-webhook: invalid configuration: no configuration has been provided"},
	} {
		cmd := exec.Command(is.Entrypoint[0], strings.Fields(try.args)...)
		cmd.Dir, cmd.Env = "/", is.Env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != try.code || !strings.Contains(string(out), try.want) {
			t.Errorf("%s: %v\n%s", try.args, err, out)
		}
	}
}

// arguments are those of the Deployment.
func arguments(t *testing.T) []string {
	t.Helper()
	for document := range bytes.SplitSeq(deploy.Server("celgate"), []byte("\n---\n")) {
		var deployment struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal(document, &deployment); err != nil {
			t.Fatal(err)
		}
		if deployment.Kind == "Deployment" {
			return deployment.Spec.Template.Spec.Containers[0].Args
		}
	}
	t.Fatal("no Deployment")
	return nil
}

// onlyImage returns the one image of a layout.
func onlyImage(t *testing.T, folder string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// unpack writes the files of an image below a folder, and returns their paths.
func unpack(t *testing.T, image v1.Image, root string) (files []string) {
	t.Helper()
	reader := mutate.Extract(image)
	defer reader.Close()
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		files = append(files, filepath.Clean("/"+header.Name))
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, content, os.FileMode(header.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}
