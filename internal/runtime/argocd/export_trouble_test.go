package argocd

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Trouble is trouble, and what is told of it.
func Trouble(app *unstructured.Unstructured, before string) (why, told string) {
	why = trouble(view(app).Status, before)
	b, _ := detail(app, memory{Trouble: why})
	return why, string(b)
}

// Overtaken is overtaken.
func Overtaken(app *unstructured.Unstructured, automated bool) bool {
	return overtaken(view(app).Status, automated)
}

// Refit is refit.
func Refit(app *unstructured.Unstructured) bool { return refit(app) }
