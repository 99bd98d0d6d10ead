//go:build unix

package app_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/droverhq/drover/internal/app"
)

// What runs as PostgreSQL's user puts links where the drill writes.
func TestDrillWritesThroughNoLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("PostgreSQL runs as whoever drills then: nobody else could put a link there (root runs it)")
	}
	victims, bin := t.TempDir(), t.TempDir()
	for _, dir := range []string{victims, bin, filepath.Dir(victims)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"postgresql.conf", "pg_hba.conf", "pg_ctl.log"}
	script := "#!/bin/sh\nif [ ! -e data ]; then mkdir data; fi\n"
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(victims, name), []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
		script += fmt.Sprintf("ln -sf %s/%s data/%s; ln -sf %s/%s %s; ln -sf %s/%s ../%s 2>/dev/null\n", victims, name, name, victims, name, name, victims, name, name)
	}
	for _, name := range []string{"pg_basebackup", "pg_ctl", "postgres"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script+"true\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := &url.URL{Scheme: "postgres", User: url.User("x"), Host: "127.0.0.1:1", Path: "/drover"}
	if err := app.Clone(t.Context(), bin, at); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(victims, name)
		data, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err = errors.Join(err, serr); err != nil || string(data) != "theirs" || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%s is %q, %v, %v", name, data, info, err)
		}
	}
}
