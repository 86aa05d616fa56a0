package plugins

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var accountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}

const (
	tokenVolume = "kube-api-access-"
	tokenMount  = "/var/run/secrets/kubernetes.io/serviceaccount"
	mirrorPod   = "kubernetes.io/config.mirror"
)

var serviceAccount = &plugin{name: "ServiceAccount", on: true, admit: setAccount, validate: checkAccount,
	concerns: either(newPod, subresource("", "pods", "ephemeralcontainers", update))}

// setAccount is Admit of plugin/pkg/admission/serviceaccount/admission.go.
func setAccount(c *call) error {
	if c.Operation != create || c.SubResource != "" {
		return nil
	}
	if isMirror(c.Object) {
		return checkAccount(c)
	}
	if c.spec().Text("serviceAccountName") == "" {
		c.setSpec(map[string]any{"serviceAccountName": "default", "serviceAccount": "default"})
	}
	account, err := c.account("error looking up service account %s/%s: %w")
	if err != nil {
		return err
	}
	automount, said := c.spec()["automountServiceAccountToken"].(bool)
	if !said {
		automount, said = account["automountServiceAccountToken"].(bool)
	}
	if automount || !said {
		c.mountToken()
	}
	if secrets := tree.Object(account).List("imagePullSecrets"); len(c.spec().List("imagePullSecrets")) == 0 &&
		len(secrets) > 0 {
		c.setSpec(map[string]any{"imagePullSecrets": secrets})
	}
	c.Object = c.answer.Object
	return checkAccount(c)
}

func isMirror(pod map[string]any) bool {
	return tree.Object(pod).At("metadata", "annotations")[mirrorPod] != nil
}

// account returns the ServiceAccount of the Pod; nil if it is unknown, which counts as one without settings. An unknown
// account is reported unless its name is default: a controller creates this one in every namespace. lookup is the
// format of the refusal if it is missing.
func (c *call) account(lookup string) (map[string]any, error) {
	name := c.spec().Text("serviceAccountName")
	if messages := content.IsPathSegmentName(name); len(messages) > 0 { // the server's client does not send it
		return nil, c.forbid(lookup, c.Namespace, name, fmt.Errorf("invalid resource name %q: %v", name, messages))
	}
	account, err := c.cluster.Get(c.ctx, accountKind, c.Namespace, name)
	switch {
	case err != nil:
		return nil, c.leave(err.Error())
	case account == nil && c.complete:
		return nil, c.forbid(lookup, c.Namespace, name, notFound(name))
	case account == nil && name != "default":
		_ = c.leave(c.describeUnknown(accountKind, c.Namespace, name))
	}
	return account, nil
}

// AssumesAccount reports whether a ServiceAccount is unknown and assumed to have default settings.
func (c *Chain) AssumesAccount(ctx context.Context, namespace, name string) bool {
	if !c.Has(serviceAccount.name) || c.complete {
		return false
	}
	account, err := c.cluster.Get(ctx, accountKind, namespace, name)
	return account == nil && err == nil
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
}

// mountToken mounts the volume with the token in all containers without another mount at its path.
func (c *call) mountToken() {
	name, has := "", false
	volumes := c.spec().List("volumes")
	for _, each := range volumes {
		volume, _ := each.(map[string]any)
		if text := tree.Object(volume).Text("name"); strings.HasPrefix(text, tokenVolume) {
			name, has = text, true
			break
		}
	}
	if name == "" {
		name = c.tokenVolumeName()
	}
	needed := false
	for _, list := range []string{"initContainers", "containers"} {
		containers := c.spec().List(list)
		next := slices.Clone(containers)
		for i, each := range containers {
			container, _ := each.(map[string]any)
			o := tree.Object(container)
			mounts := o.List("volumeMounts")
			if slices.ContainsFunc(mounts, func(m any) bool {
				mount, _ := m.(map[string]any)
				return mount["mountPath"] == tokenMount
			}) {
				continue
			}
			needed = true
			next[i] = o.With(map[string]any{"volumeMounts": append(slices.Clip(mounts),
				map[string]any{"name": name, "readOnly": true, "mountPath": tokenMount})})
		}
		if len(containers) > 0 {
			c.setSpec(map[string]any{list: next})
		}
	}
	if needed && !has {
		c.setSpec(map[string]any{"volumes": append(slices.Clip(volumes), tokenVolumeOf(name))})
	}
}

// tokenVolumeName returns a name for the volume of the token; the server draws its suffix at random.
func (c *call) tokenVolumeName() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	sum := sha256.Sum256([]byte("token\x00" + c.Namespace + "\x00" + c.DisplayName))
	suffix := sum[:5]
	for i, b := range suffix {
		suffix[i] = alphabet[int(b)%len(alphabet)]
	}
	return tokenVolume + string(suffix)
}

func tokenVolumeOf(name string) map[string]any {
	return map[string]any{"name": name, "projected": tokenSources}
}

// tokenSources is the part of the volume that is the same in all Pods, which share it.
var tokenSources = map[string]any{"defaultMode": int64(420), "sources": []any{
	map[string]any{"serviceAccountToken": map[string]any{"path": "token", "expirationSeconds": int64(3607)}},
	map[string]any{"configMap": map[string]any{"name": "kube-root-ca.crt",
		"items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}}}},
	map[string]any{"downwardAPI": map[string]any{"items": []any{map[string]any{"path": "namespace",
		"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}}},
}}

// checkAccount is Validate.
func checkAccount(c *call) error {
	if c.SubResource != "" {
		if c.Operation == update {
			return c.leave("") // ephemeral containers
		}
		return nil
	}
	if isMirror(c.Object) {
		return c.leave("of a mirror Pod")
	}
	if c.spec().Text("serviceAccountName") == "" {
		return c.forbid("no service account specified for pod %s/%s", c.Namespace, tree.Object(c.Object).Name())
	}
	account, err := c.account("error looking up service account %s/%s: %v")
	if err != nil {
		return err
	}
	if enforced, _ := strconv.ParseBool(tree.Object(account).Annotation("kubernetes.io/enforce-mountable-secrets")); !enforced {
		return nil
	}
	pod := new(corev1.Pod) // large
	if err := c.read(c.Object, pod); err != nil {
		return err
	}
	return c.checkSecrets(account, pod)
}

// checkSecrets forbids a Pod to name Secrets that its ServiceAccount does not list.
func (c *call) checkSecrets(account map[string]any, pod *corev1.Pod) error {
	o := tree.Object(account)
	has := func(list, name string) bool {
		return slices.ContainsFunc(o.List(list), func(s any) bool {
			secret, _ := s.(map[string]any)
			return secret["name"] == name
		})
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !has("secrets", v.Secret.SecretName) {
			return c.forbid(`volume with secret.secretName="%s" is not allowed because service account %s does not reference that secret`, v.Secret.SecretName, o.Name())
		}
	}
	for _, of := range []struct {
		what       string
		containers []corev1.Container
	}{{"init container", pod.Spec.InitContainers}, {"container", pod.Spec.Containers}} {
		for _, container := range of.containers {
			for _, env := range container.Env {
				if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil &&
					!has("secrets", env.ValueFrom.SecretKeyRef.Name) {
					return c.forbid(`%s %s with envVar %s referencing secret.secretName="%s" is not allowed because service account %s does not reference that secret`, of.what, container.Name, env.Name,
						env.ValueFrom.SecretKeyRef.Name, o.Name())
				}
			}
			for _, from := range container.EnvFrom {
				if from.SecretRef != nil && !has("secrets", from.SecretRef.Name) {
					return c.forbid(`%s %s with envFrom referencing secret.secretName="%s" is not allowed because service account %s does not reference that secret`, of.what, container.Name, from.SecretRef.Name,
						o.Name())
				}
			}
		}
	}
	for i, secret := range pod.Spec.ImagePullSecrets {
		if !has("imagePullSecrets", secret.Name) {
			return c.forbid(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, secret.Name, o.Name())
		}
	}
	return nil
}
