package kubeapi

import (
	"bytes"
	"crypto/x509"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/url"
	"regexp"
	"strconv"

	"github.com/droverhq/drover/internal/fault"
)

//go:embed manifests
var shipped embed.FS

// Manifests are the definitions and roles that a home needs, as one stream of YAML
// documents: definitions first. The registration of the webhook is not among them
// (see Webhook): without it all but a warning works.
func Manifests() []byte {
	return gather("manifests/crd", "manifests/rbac")
}

// Webhook is the registration of the webhook that warns (Home.Admission), as a Service
// drover of the namespace drover.
func Webhook() []byte { return gather("manifests/webhook") }

// service is where Webhook says that the server is.
var service = regexp.MustCompile(`(?m)^( *)service:\n(?: +(?:name|namespace|path): .*\n)+`)

// WebhookAt is the same of a server at a URL (https://drover.example.org), whose
// certificate is of an authority, as PEM; empty: one that the API server trusts anyway.
func WebhookAt(address string, authority []byte) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.New(fault.Invalid, "%q is no address that a Kubernetes API calls: it begins with https://, and has neither user nor query", address)
	}
	if len(authority) > 0 && !x509.NewCertPool().AppendCertsFromPEM(authority) {
		return nil, fault.New(fault.Invalid, "there is no certificate in the authority's file: it is PEM, of the authority that made the server's certificate")
	}
	to := "${1}url: " + strconv.Quote(u.JoinPath(AdmissionPath).String()) + "\n"
	if len(authority) > 0 {
		to = "${1}caBundle: " + base64.StdEncoding.EncodeToString(authority) + "\n" + to
	}
	return service.ReplaceAll(Webhook(), []byte(to)), nil
}

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
