package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// unwellError is a server that is not as it should be: exit code 7.
type unwellError struct{ text string }

func (e *unwellError) Error() string { return e.text }

// skew is how far this machine's clock may be from the server's.
const skew = 30 * time.Second

func (c *CLI) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "What is wrong, why, and what to do",
		Long: `Has the server look at itself and at what it calls, and prints what is not as it should be, the
worst first, each with what helps. Operators only. Where no server answers, it says what was
tried and what that may come from.

Exit codes: 0 all is well (notes aside), 7 something is wrong, 6 no server answers.`,
		Example: `  drover doctor
  drover doctor -o json | jq -r '.findings[] | select(.severity == "critical") | .what'`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.connect(cmd)
			if err != nil {
				return err
			}
			d, err := s.Doctor(cmd.Context())
			if err != nil {
				return c.unanswered(s, err)
			}
			if apart := d.At.Sub(c.now()).Abs(); !d.At.IsZero() && apart > skew {
				d.Healthy = false
				d.Findings = append(d.Findings, v1.Finding{ID: "clock-here", Severity: "warning", What: "the clocks of the server and of this machine differ",
					Why: fmt.Sprintf("by %s: tokens seem to end early or late", apart.Round(time.Second)), Do: []string{"timedatectl status   # on both: have both follow NTP"}})
			}
			if format := output(cmd); format == "json" || format == "yaml" {
				if err := c.print(format, d); err != nil {
					return err
				}
			} else {
				c.diagnosed(s, d)
			}
			if d.Healthy {
				return nil
			}
			return &unwellError{tally(d.Findings)}
		},
	}
	outputFlag(cmd, "text", "json", "yaml")
	return cmd
}

// diagnosed prints findings as people read them.
func (c *CLI) diagnosed(s *session, d v1.Diagnosis) {
	c.printf("%s: drover %s on %s\n", clean(s.at.server, false), clean(d.Version, false), clean(d.Database, false))
	if len(d.Findings) == 0 {
		c.printf("All is well.\n")
		return
	}
	for _, f := range d.Findings {
		c.printf("\n%-8s  %s\n", strings.ToUpper(clean(f.Severity, false)), clean(f.What, false))
		if f.Why != "" {
			c.printf("          why: %s\n", clean(f.Why, false))
		}
		for _, x := range f.Examples {
			c.printf("            - %s\n", clean(x, false))
		}
		for _, do := range f.Do {
			c.printf("          do:  %s\n", clean(do, false))
		}
	}
	if d.Healthy {
		c.printf("\nNothing is wrong.\n")
	}
}

func tally(findings []v1.Finding) string {
	n := map[string]int{}
	for _, f := range findings {
		n[f.Severity]++
	}
	s := "s"
	if n["warning"] == 1 {
		s = ""
	}
	return fmt.Sprintf("something is wrong: %d critical, %d warning%s", n["critical"], n["warning"], s)
}

// unanswered says what was tried, and what its failure may come from.
func (c *CLI) unanswered(s *session, err error) error {
	var gone *client.Unreachable
	status := client.Status(err)
	if !errors.As(err, &gone) && status != http.StatusUnauthorized && status != http.StatusServiceUnavailable && status != http.StatusForbidden {
		return err
	}
	c.note("Tried:   GET %s/api/v1/doctor", clean(strings.TrimSuffix(s.at.server, "/"), false))
	c.note("Server:  from %s", clean(s.at.serverSource, false))
	switch {
	case s.at.token == "" && s.at.login == "":
		c.note("Token:   none")
	default:
		c.note("Token:   from %s", clean(s.at.tokenSource, false))
	}
	for _, line := range likely(err, status, s.at.token != "" || s.at.login != "") {
		c.note("Likely:  %s", clean(line, false))
	}
	return err
}

// likely are the causes of a failure, the likeliest first, each with what to look at.
func likely(err error, status int, token bool) []string {
	var gone *client.Unreachable
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	switch {
	case status == http.StatusUnauthorized && !token:
		return []string{"nobody is logged in here: drover login, or --token-file DATA-DIR/admin.token on the server's machine"}
	case status == http.StatusUnauthorized:
		return []string{
			"the token has expired, or is another server's: drover login, or drover token --user NAME --admin on the server's machine",
			"this machine's clock, or the server's, is wrong: date -u on both",
		}
	case status == http.StatusForbidden:
		return []string{"the token is no operator's: drover login as one, or --token-file DATA-DIR/admin.token on the server's machine"}
	case status == http.StatusServiceUnavailable:
		return []string{"the server is there, and its database is away or full: its /readyz and its log say which; nothing acknowledged is lost"}
	case errors.As(err, &dns):
		return []string{
			"the name does not resolve: is it spelt right? drover config show tells where it comes from",
			"this machine's DNS is broken: getent hosts " + dns.Name,
		}
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return []string{"the server speaks plain HTTP there: write http:// for it, or the address of the proxy that ends TLS"}
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify):
		return []string{
			"the certificate is not trusted here, is for another name, or has ended: openssl s_client -connect HOST:PORT",
			"a proxy is in between that ends TLS with a certificate of its own",
		}
	case errors.As(err, &gone) && gone.Refused:
		return []string{
			"the server is down: look at its process and at the end of its log (journalctl -u drover, kubectl logs)",
			"the address is another's: drover config show tells where it comes from; drover up prints where it listens",
			"it listens on loopback alone, and this is another machine: --listen",
		}
	}
	return []string{
		"the machine, or the network to it, is down, or a firewall drops the connection: ping it; curl -v its /healthz",
		"the server hangs: its process is there and /healthz does not answer; keep its log and goroutines (kill -QUIT) before restarting it",
		"the address is another's: drover config show tells where it comes from",
	}
}
