// Package tofu runs OpenTofu, or Terraform, as a program, through terraform-exec:
// what is the same for all who use modules.
//
// It owns how the program is found, what it sees of this process, how its work
// outlives it, and how its words are read. It must not know what modules are for
// or where states are kept.
package tofu

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/droverhq/drover/internal/fault"
)

// Find returns the whole path of the program: tofu where no other is named. Hint
// says how to name one.
func Find(name, hint string) (string, error) {
	if name == "" {
		name = "tofu"
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "OpenTofu is not installed (no %s on the PATH of the server; name it with %s)", name, hint)
	}
	return filepath.Abs(binary)
}

// Open prepares calls in a directory, which print nothing.
func Open(dir, binary string, env map[string]string) (*tfexec.Terraform, error) {
	t, err := tfexec.NewTerraform(dir, binary)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot run OpenTofu: %w", err)
	}
	t.SetStdout(io.Discard)
	t.SetStderr(io.Discard)
	return t, t.SetEnv(env)
}

// Environment is what the program sees of this process: all but what its caller
// sets, what would change where it looks, and this process's own secrets. What
// clouds need is for the module and its plugins, the key of the ledger is not.
func Environment() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && !managed(name) {
			env[name] = value
		}
	}
	env["CHECKPOINT_DISABLE"] = "1"
	return env
}

// managed are variables that are kept from the program. terraform-exec refuses
// some of them.
func managed(name string) bool {
	switch name {
	case "TF_PLUGIN_CACHE_DIR":
		return false
	case "TF_CLI_CONFIG_FILE": // one that is missing is complained about where answers are expected
		_, err := os.Stat(os.Getenv(name))
		return err != nil
	}
	return strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "DROVER_") || name == "CHECKPOINT_DISABLE" || tfexec.ProhibitedEnv(map[string]string{name: ""}) != nil
}

// Encryption is the value of TF_ENCRYPTION that encrypts what is written: "state",
// "plan". The key is random, so stretching it protects nothing: the fewest
// iterations that OpenTofu accepts. Terraform takes no notice.
func Encryption(key string, what ...string) string {
	text := fmt.Sprintf(`key_provider "pbkdf2" "drover" {
  passphrase = %q
  iterations = 200000
}
method "aes_gcm" "drover" { keys = key_provider.pbkdf2.drover }
`, key)
	for _, name := range what {
		text += name + " {\n  method = method.aes_gcm.drover\n  enforced = true\n}\n"
	}
	return text
}

// Words is what people read of a failed call: the program's own words, without
// their frame and at most a few lines. It hides sensitive values itself.
func Words(err error) string {
	words := err.Error()
	if at := strings.Index(words, "Error: "); at >= 0 { // what comes before is chatter
		words = words[at:]
	}
	var said []string
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "│╷╵"))
		if line != "" && len(said) < 8 {
			said = append(said, line)
		}
	}
	text := strings.Join(said, " ")
	if len(text) > 1000 {
		text = text[:1000] + " ..."
	}
	return strings.ToValidUTF8(text, "")
}
