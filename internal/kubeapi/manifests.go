package kubeapi

import (
	"bytes"
	"embed"
	"io/fs"
)

//go:embed manifests
var shipped embed.FS

// Manifests are the definitions and roles that a home needs, as one stream of YAML
// documents: definitions first. The registration of the webhook is not among them
// (see Webhook): without it all but a warning works.
func Manifests() []byte {
	return gather("manifests/crd", "manifests/rbac")
}

// Webhook is the registration of the webhook that warns (Home.Admission).
func Webhook() []byte { return gather("manifests/webhook") }

func gather(dirs ...string) []byte {
	var out bytes.Buffer
	for _, dir := range dirs {
		// What is embedded can be read; a folder that is not there is a defect that
		// every test of this room shows.
		files, err := fs.ReadDir(shipped, dir)
		if err != nil {
			panic(err)
		}
		for _, f := range files {
			data, err := shipped.ReadFile(dir + "/" + f.Name())
			if err != nil {
				panic(err)
			}
			data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("---\n"))
			out.WriteString("---\n")
			out.Write(data)
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
