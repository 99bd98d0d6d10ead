package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
)

func (c *CLI) loginCommand() *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to a server through the browser",
		Long: `Opens the login page of the server's identity provider, and keeps what comes back in
a context: a token that lives for minutes, and what renews it. The file is readable by
you alone. Later commands use the context and renew the token by themselves.

Where the server is not its own identity provider, name that with --issuer.`,
		Example: `  drover login --server https://drover.example.org
  drover login --context prod                 # again, after the login has ended
  drover login --server https://drover.example.org --issuer https://sso.example.org/realms/fleet
  drover login --no-browser                   # open the printed page yourself, on this machine`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			err := c.login(ctx, cmd, f)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return &timeoutError{fmt.Sprintf("nobody has logged in within %v", f.timeout)}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.issuer, "issuer", "", "`URL` of the identity provider [the server]")
	flags.StringVar(&f.client, "client-id", "drover-cli", "`id` of this program there")
	flags.BoolVar(&f.quiet, "no-browser", false, "print the page's address and open nothing")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for you")
	return cmd
}

type loginFlags struct {
	issuer, client string
	quiet          bool
	timeout        time.Duration
}

func (c *CLI) login(ctx context.Context, cmd *cobra.Command, f loginFlags) error {
	file, err := c.loadContexts()
	if err != nil {
		return err
	}
	v, err := resolve(cmd.Flags(), c.cfg.Getenv, forClient)
	if err != nil {
		return err
	}
	name := v.text("context")
	if name != "" && file.Contexts[name].Server == "" {
		if v.text("server") == "" {
			return usagef("there is no context %s yet: give --server, too", quoted(name))
		}
		v["context"] = value{setting: v["context"].setting}
	}
	at, err := c.connection(v)
	if lost := (*lostToken)(nil); err != nil && !errors.As(err, &lost) {
		return err
	}
	if name == "" {
		name = file.nameFor(at.server)
	}
	issuer := f.issuer
	if issuer == "" {
		issuer = at.server
	}
	if err := at.safe(v); err != nil {
		return err // what comes back is a token
	}
	config, err := at.config(v)
	if err != nil {
		return err
	}
	web := at.web(config, issuer)
	provider, err := discover(ctx, web, issuer)
	if gone := (*client.Unreachable)(nil); errors.As(err, &gone) && issuer == at.server {
		gone.Refused = errors.Is(err, syscall.ECONNREFUSED)
		return gone // there is no server, let alone its identity provider
	}
	if err != nil {
		return err
	}
	granted, err := c.authorize(ctx, web, provider, f)
	if err != nil {
		return err
	}
	config.Token, config.UserAgent = granted.Access, "drover/"+c.cfg.Version
	api, err := client.New(config)
	if err != nil {
		return err
	}
	who, err := api.WhoAmI(ctx)
	if err != nil {
		return fmt.Errorf("%s does not take the login: %w", at.server, err)
	}
	item := contextItem{Server: at.server, Files: at.files}
	if err := item.Files.absolute(); err != nil {
		return err
	}
	item.keep(granted, provider, f.client, c.now())
	err = c.editContexts(ctx, func(file *contexts) error {
		file.Contexts[name], file.Current = item, name
		return nil
	})
	if err != nil {
		return err
	}
	as := who.User
	if who.Org != "" {
		as += " of " + who.Org
	}
	c.printf("logged in to %s as %s; context %s is now current\n", clean(at.server, false), clean(as, false), clean(name, false))
	return nil
}

// authorize sends a person to the login page and waits for what comes back: the
// authorization code flow with PKCE, to an address of this machine.
func (c *CLI) authorize(ctx context.Context, idp *http.Client, p provider, f loginFlags) (grant, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return grant{}, fmt.Errorf("cannot wait for the login: %w", err)
	}
	verifier, state := rand.Text()+rand.Text(), rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	back := "http://" + listener.Addr().String() + "/callback"
	page, err := url.Parse(p.Authorization)
	if err != nil {
		return grant{}, fmt.Errorf("cannot read the address of the login page: %w", err)
	}
	page.RawQuery = url.Values{
		"response_type": {"code"}, "client_id": {f.client}, "redirect_uri": {back}, "scope": {"openid"}, "state": {state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	came := make(chan url.Values, 1)
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: awaitCode(state, came)}
	go web.Serve(listener) // one goroutine, ended by Close
	defer web.Close()
	c.note("log in at this page:\n  %s", page)
	if !f.quiet {
		c.browse(ctx, page.String())
	}
	var answer url.Values
	select {
	case <-ctx.Done():
		return grant{}, context.Cause(ctx)
	case answer = <-came:
	}
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = web.Shutdown(shut) // the browser is to have its page
	if answer.Get("error") != "" {
		return grant{}, &deniedError{"the login was refused: " + clean(answer.Get("error"), false)}
	}
	return p.exchange(ctx, idp, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {f.client}, "redirect_uri": {back}, "code_verifier": {verifier}, "code": {answer.Get("code")},
	})
}

// awaitCode takes the first answer that has our state; whatever else comes is
// told nothing.
func awaitCode(state string, came chan<- url.Values) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 || q.Get("code") == "" && q.Get("error") == "" {
			http.Error(w, "this is not the answer to a login that is waited for", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "That was it: go back to the command line. This page can be closed.")
		select {
		case came <- q:
		default:
		}
	})
	return mux
}

// browse opens a page if it can; the address was printed anyway.
func (c *CLI) browse(ctx context.Context, page string) {
	var command []string
	switch browser := c.cfg.Getenv("BROWSER"); {
	case browser != "":
		command = append(strings.Fields(browser), page)
	case runtime.GOOS == "darwin":
		command = []string{"open", page}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", page}
	default:
		command = []string{"xdg-open", page}
	}
	opener := exec.CommandContext(ctx, command[0], command[1:]...)
	if opener.Start() == nil {
		go opener.Wait() // ended with ctx at the latest
	}
}

func (c *CLI) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "End the login of a context",
		Example: `  drover logout
  drover logout --context prod`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := resolve(cmd.Flags(), c.cfg.Getenv, forClient)
			if err != nil {
				return err
			}
			file, err := c.loadContexts()
			if err != nil {
				return err
			}
			name := v.text("context")
			if name == "" {
				name = file.Current
			}
			if name == "" {
				return &notFoundError{"there is no login: no context is current"}
			}
			item, err := file.get(name)
			if err != nil {
				return err
			}
			if item.RefreshToken == "" {
				return &notFoundError{"context " + quoted(name) + " has no login"}
			}
			// The token is forgotten here even if the provider cannot be told.
			ended := item.end(cmd.Context())
			err = c.editContexts(cmd.Context(), func(file *contexts) error {
				file.Contexts[name] = contextItem{Server: item.Server, Files: item.Files}
				return nil
			})
			if err != nil {
				return err
			}
			if ended != nil {
				return fmt.Errorf("the login of context %s is forgotten here, but goes on at the identity provider: %w", name, ended)
			}
			c.printf("logged out of %s\n", clean(item.Server, false))
			if at, err := c.connection(v); err == nil && at.token != "" {
				c.note("%s has a token for %s, too: commands that you run here act as whoever that is from now on. Run them elsewhere, or log in again.",
					clean(capital(at.tokenSource), false), clean(at.server, false))
			}
			return nil
		},
	}
}
