package file_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/credential"
	"github.com/droverhq/drover/internal/credential/credentialtest"
	"github.com/droverhq/drover/internal/credential/file"
	"github.com/droverhq/drover/internal/fault"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	// As whoever rotates it should: nobody reads half of it.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	for name, of := range map[string]func(t *testing.T, path string) func(t *testing.T, username, password string){
		"JSON": func(_ *testing.T, path string) func(*testing.T, string, string) {
			return func(t *testing.T, username, password string) {
				data, _ := json.Marshal(map[string]string{"username": username, "password": password})
				write(t, path, string(data)+"\n")
			}
		},
		"directory": func(t *testing.T, path string) func(*testing.T, string, string) {
			return func(t *testing.T, username, password string) {
				if err := os.MkdirAll(path, 0o700); err != nil {
					t.Fatal(err)
				}
				next := path + ".next" // as Kubernetes changes a mounted secret: at once
				if err := os.MkdirAll(next, 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(next, "username"), username+"\n")
				write(t, filepath.Join(next, "password"), password+"\n")
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, path); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "credential")
			credentialtest.Run(t, credentialtest.Place{
				Open: func(*testing.T) credential.Source {
					return file.New(file.Config{Path: path, Every: 10 * time.Millisecond})
				},
				Put: of(t, path),
				Break: func(t *testing.T) func() {
					if err := os.Rename(path, path+".away"); err != nil {
						t.Fatal(err)
					}
					return func() {
						if err := os.Rename(path+".away", path); err != nil {
							t.Fatal(err)
						}
					}
				},
			})
		})
	}
}

func TestForms(t *testing.T) {
	for _, tc := range []struct {
		reason, text       string
		username, password string
		kind               fault.Kind
	}{
		{"the password alone", "s3cret\n", "", "s3cret", 0},
		{"a pair", `{"username": "ann", "password": "s3cret"}`, "ann", "s3cret", 0},
		{"nothing", "\n", "", "", fault.Invalid},
		{"a pair without a password", `{"username": "ann"}`, "", "", fault.Invalid},
		{"broken", `{"username": "ann"`, "", "", fault.Invalid},
	} {
		path := filepath.Join(t.TempDir(), "credential")
		write(t, path, tc.text)
		s := file.New(file.Config{Path: path})
		c, err := s.Get(t.Context())
		s.Close()
		if tc.password == "" {
			if fault.Of(err) != tc.kind {
				t.Errorf("%s: %v", tc.reason, err)
			}
		} else if err != nil || c.Username != tc.username || c.Password != tc.password {
			t.Errorf("%s: got another, %v", tc.reason, err)
		}
	}
}
