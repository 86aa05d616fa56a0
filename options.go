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

// checkOptions returns the server's answer to invalid options, which it refuses first, by the validation of
// k8s.io/apimachinery that the server's handlers call. It also returns the options of a DELETE.
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
		var options metav1.UpdateOptions // PatchOptions have one more member, of which every value is valid
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

// readOptions decodes options, unless they only have apiVersion and kind.
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
