package celgate

import (
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var optionKinds = map[Operation]string{Create: "CreateOptions", Update: "UpdateOptions", Delete: "DeleteOptions"}

// checkOptions returns the server's answer to options that it refuses before anything else looks at the request, by
// the validation of k8s.io/apimachinery that the server's handlers call. The options of a DELETE are returned as they
// are.
func checkOptions(req *Request) (*metav1.DeleteOptions, error) {
	var errs field.ErrorList
	var deletion *metav1.DeleteOptions
	switch req.Operation {
	case Create:
		var options metav1.CreateOptions
		if err := readOptions(req.Options, &options); err != nil {
			return nil, err
		}
		errs = validation.ValidateCreateOptions(&options)
	case Update:
		var options metav1.UpdateOptions // PatchOptions have one member more, which has no wrong value
		if err := readOptions(req.Options, &options); err != nil {
			return nil, err
		}
		errs = validation.ValidateUpdateOptions(&options)
	case Delete:
		deletion = &metav1.DeleteOptions{}
		if err := readOptions(req.Options, deletion); err != nil {
			return nil, err
		}
		errs = validation.ValidateDeleteOptions(deletion)
	}
	if len(errs) == 0 {
		return deletion, nil
	}
	kind, _ := req.Options["kind"].(string)
	if kind == "" {
		kind = optionKinds[req.Operation]
	}
	return nil, apierrors.NewInvalid(apischema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// readOptions decodes options, unless they say nothing but what they are.
func readOptions(sent map[string]any, into any) error {
	more := false
	for member, value := range sent {
		_, isText := value.(string)
		more = more || !isText || member != "apiVersion" && member != "kind"
	}
	if !more {
		return nil
	}
	text, err := json.Marshal(sent)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
