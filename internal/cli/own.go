package cli

import (
	"errors"
	"net/url"
	"strings"
)

// checkWeb is of the URL of a service that Drover itself needs.
func checkWeb(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("want https://HOST:PORT, or http://")
	}
	if u.User != nil {
		return errors.New("credentials belong into its options, not into the URL")
	}
	return nil
}

// checkReference does not repeat what was written: somebody may have taken it for the
// place of a password.
func checkReference(text string) error {
	scheme, path, _ := strings.Cut(text, ":")
	if path == "" || scheme != "vault" && scheme != "file" {
		return errors.New("want vault:PATH, such as vault:database/creds/drover, or file:PATH, such as file:/run/secrets/database")
	}
	return nil
}

// maskReference shows references, and hides whatever else somebody wrote there.
func maskReference(text string) string {
	if checkReference(text) != nil {
		return maskAll(text)
	}
	return text
}
