// Package servers brings real servers to the tests: archives that are fetched
// once, checked, and unpacked into the user's cache.
//
// It owns the cache, the lock on it and the progress lines. It must not know
// any server: whoever runs one describes its archive.
package servers

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Archive is a zip file that a server comes in.
type Archive struct {
	Name    string // "keycloak"
	Version string
	URL     string
	SHA256  string // of the file; what does not have it is not unpacked
	Strip   int    // leading path elements that are left out
}

// Dir is where the archive is unpacked to, whether it is there or not.
func (a Archive) Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the cache directory: %w", err)
	}
	return filepath.Join(cache, "drover", a.Name+"-"+a.Version), nil
}

// Fetch returns the directory with the unpacked archive, and downloads it where
// it is missing. Of several processes one downloads and the others wait.
// Progress lines go to out.
func Fetch(ctx context.Context, a Archive, out io.Writer) (string, error) {
	dir, err := a.Dir()
	if err != nil {
		return "", err
	}
	if there(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("cannot lock the cache: %w", err)
	}
	defer unlock()
	if there(dir) {
		return dir, nil // another process was first
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "."+a.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	file := filepath.Join(work, "archive")
	if err := download(ctx, a, file, out); err != nil {
		return "", fmt.Errorf("cannot fetch %s %s: %w", a.Name, a.Version, err)
	}
	fmt.Fprintf(out, "servers: unpacking %s %s\n", a.Name, a.Version)
	if err := unpack(file, filepath.Join(work, "tree"), a.Strip); err != nil {
		return "", fmt.Errorf("cannot unpack %s %s: %w", a.Name, a.Version, err)
	}
	// The directory appears whole or not at all.
	return dir, os.Rename(filepath.Join(work, "tree"), dir)
}

func there(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func download(ctx context.Context, a Archive, file string, out io.Writer) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL.Host, res.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	p := &progress{out: out, what: a.Name + " " + a.Version, size: res.ContentLength, next: time.Now()}
	if _, err := io.Copy(io.MultiWriter(f, sum, p), res.Body); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.SHA256 {
		return fmt.Errorf("its checksum is %s, and should be %s", got, a.SHA256)
	}
	return nil
}

// progress says every few seconds how far a download is.
type progress struct {
	out        io.Writer
	what       string
	done, size int64
	next       time.Time
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(3 * time.Second)
		fmt.Fprintf(p.out, "servers: fetching %s: %d of %d MB\n", p.what, p.done>>20, p.size>>20)
	}
	return len(b), nil
}

func unpack(file, dir string, strip int) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, entry := range z.File {
		parts := strings.Split(strings.Trim(entry.Name, "/"), "/")
		if len(parts) <= strip {
			continue
		}
		name := filepath.FromSlash(strings.Join(parts[strip:], "/"))
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q leads out of the archive", entry.Name)
		}
		if err := extract(entry, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func extract(entry *zip.File, path string) (err error) {
	if entry.FileInfo().IsDir() {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := entry.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, entry.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, in)
	return err
}
