package argocd

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// Former is former.
func Former(uid string, app *unstructured.Unstructured) *runtime.Deployment { return former(uid, app) }
