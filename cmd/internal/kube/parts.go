package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celgate/celgate/schema"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Parts are files that the Pods of a Job share in ConfigMaps of a namespace. A file may span several ConfigMaps.
type Parts struct {
	Client    *Client
	Namespace string
	Prefix    string                 // of the names of the ConfigMaps
	Labels    map[string]string      // of the ConfigMaps
	Owner     *metav1.OwnerReference // the ConfigMaps are deleted with it; nil: they stay
}

// mostPart is the size of the part of a file in one ConfigMap, which may have 1 MiB in all.
const mostPart = 900_000

// The members of a ConfigMap.
const (
	partData = "data"
	partMore = "celgate.dev/more" // an annotation: the number of further ConfigMaps of the file
)

func (p *Parts) name(file string, i int) string {
	if i == 0 {
		return p.Prefix + "-" + file
	}
	return fmt.Sprintf("%s-%s-%d", p.Prefix, file, i)
}

func (p *Parts) object(file string, i, more int, data []byte) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"binaryData": map[string]any{partData: base64.StdEncoding.EncodeToString(data)},
	}}
	object.SetName(p.name(file, i))
	object.SetLabels(p.Labels)
	object.SetAnnotations(map[string]string{partMore: strconv.Itoa(more)})
	if p.Owner != nil {
		object.SetOwnerReferences([]metav1.OwnerReference{*p.Owner})
	}
	return object
}

// Create makes a file that fits into one ConfigMap. The error is like [fs.ErrExist] if the file exists.
func (p *Parts) Create(ctx context.Context, file string, data []byte) error {
	if len(data) > mostPart {
		return fmt.Errorf("%s has %d bytes, but a ConfigMap holds at most %d", file, len(data), mostPart)
	}
	_, err := p.Client.dynamic.Resource(configMaps).Namespace(p.Namespace).Create(ctx, p.object(file, 0, 0, data),
		metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return errors.Join(fs.ErrExist, err)
	}
	return err
}

// Write makes or replaces a file. Readers see it when it is complete.
func (p *Parts) Write(ctx context.Context, file string, data []byte) error {
	more := max(0, len(data)-1) / mostPart
	for i := more; i >= 0; i-- {
		text, err := p.object(file, i, more, data[i*mostPart:min(len(data), (i+1)*mostPart)]).MarshalJSON()
		if err != nil {
			return err
		}
		force := true
		_, err = p.Client.dynamic.Resource(configMaps).Namespace(p.Namespace).Patch(ctx, p.name(file, i),
			types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return err
		}
	}
	return nil
}

// Read opens a file. The error is like [fs.ErrNotExist] if the file does not exist.
func (p *Parts) Read(ctx context.Context, file string) (io.ReadCloser, error) {
	data, more, err := p.chunk(ctx, file, 0)
	if apierrors.IsNotFound(err) {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	chunks := []io.Reader{bytes.NewReader(data)}
	for i := 1; i <= more; i++ {
		chunks = append(chunks, &lateReader{read: func() ([]byte, error) {
			data, _, err := p.chunk(ctx, file, i)
			return data, err
		}})
	}
	return io.NopCloser(io.MultiReader(chunks...)), nil
}

func (p *Parts) chunk(ctx context.Context, file string, i int) (data []byte, more int, err error) {
	object, err := p.Client.dynamic.Resource(configMaps).Namespace(p.Namespace).Get(ctx, p.name(file, i),
		metav1.GetOptions{})
	if err != nil {
		return nil, 0, err
	}
	if annotation := object.GetAnnotations()[partMore]; annotation != "" {
		if more, err = strconv.Atoi(annotation); err != nil {
			return nil, 0, fmt.Errorf("ConfigMap %s: %w", object.GetName(), err)
		}
	}
	text, _, _ := unstructured.NestedString(object.Object, "binaryData", partData)
	data, err = base64.StdEncoding.DecodeString(text)
	return data, more, err
}

// A lateReader fetches its content at the first Read.
type lateReader struct {
	read func() ([]byte, error)
	data *bytes.Reader
}

// Read implements io.Reader.
func (l *lateReader) Read(p []byte) (int, error) {
	if l.data == nil {
		data, err := l.read()
		if err != nil {
			return 0, err
		}
		l.data = bytes.NewReader(data)
	}
	return l.data.Read(p)
}
