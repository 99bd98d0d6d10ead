package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// BootstrapRepository is what was found in a repository, and what came of it.
type BootstrapRepository struct {
	Name         string                 `json:"name"`
	Commit       string                 `json:"commit,omitempty"`
	Error        string                 `json:"error,omitempty"`
	Templates    []string               `json:"templates,omitempty"`
	Environments []BootstrapEnvironment `json:"environments,omitempty"`
}

// BootstrapEnvironment is one that a repository describes.
type BootstrapEnvironment struct {
	Name  string `json:"name"`
	Phase string `json:"phase,omitempty"` // sent, there
	Error string `json:"error,omitempty"`
}

// bootSource is the sender of bootstrap's commands.
const bootSource = "/drover/bootstrap"

// desk is what the new control plane is spoken to by.
type desk struct {
	to    *Server
	bus   bus.Bus
	token string
	meta  string // name of the template that Drover itself is made of
}

// repositories sends the environments that repositories describe to the new Drover.
// One that is wrong is named, and stops no other.
func (b *bootstrap) repositories(ctx context.Context) (sent bool, err error) {
	if b.Organisation == "" && len(b.Repositories) == 0 {
		return false, nil
	}
	d, err := b.desk(ctx)
	if err != nil {
		return false, err
	}
	defer d.to.Close()
	defer d.bus.Close()
	names, err := b.names(ctx, d.to)
	if err != nil {
		return false, err
	}
	failed := 0
	for _, name := range names {
		r, news := b.repository(ctx, d, name)
		if ctx.Err() != nil {
			return sent, ctx.Err()
		}
		sent = sent || news
		if r.Error != "" {
			failed++
			b.tell("repository", name, "failed", r.Error)
		}
		for _, e := range r.Environments {
			if e.Error != "" {
				failed++
				b.tell("environment", e.Name, "failed", e.Error)
				continue
			}
			b.tell("environment", e.Name, e.Phase, "of "+name)
		}
		b.report.Repositories = append(b.report.Repositories, r)
	}
	if failed > 0 {
		return sent, fault.New(fault.Invalid, "%d of what the repositories describe could not be sent, as told above; all else is done. Mend it and run the same command again", failed).Because("repositories")
	}
	return sent, nil
}

// asTenant is who orders what repositories describe: no operator, since whoever may
// push to one would have the connections that are for operators, and so the machine.
var asTenant = access.Claims{User: "admin", Org: "local", OrgAdmin: true}

// desk opens the new control plane's ledger, and its broker.
func (b *bootstrap) desk(ctx context.Context) (*desk, error) {
	s, err := b.laptop(ctx, b.ledgerDir())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o, err := s.environments.Get(ctx, metaName)
	if err != nil {
		return nil, err
	}
	e, err := environment.Decode(o)
	if err != nil {
		return nil, err
	}
	out, err := s.environments.Outputs(ctx, metaName, true)
	if err != nil {
		return nil, err
	}
	text := func(name string) string { t, _ := out[name].(string); return t }
	at, err := b.doors(text, "broker", "database")
	if err != nil {
		return nil, err
	}
	broker, err := url.Parse(text("broker"))
	if err != nil || broker.Host == "" {
		return nil, fault.New(fault.Invalid, "the meta template has no output broker: commands cannot be sent").Because("outputs")
	}
	broker.User = url.UserPassword("drover", text("broker_password"))
	d := &desk{}
	d.meta, _, _ = strings.Cut(e.Spec.Version, "@")
	if d.to, err = b.replica(ctx, at, text("master_key")); err != nil {
		return nil, err
	}
	with := bus.Options{"url": broker.String()}
	for option, file := range at.files {
		if file != "" {
			with[option] = file
		}
	}
	if d.bus, err = buses["rabbitmq"](d.to, with); err == nil {
		d.token, _, err = d.to.issuer.Issue(ctx, asTenant, time.Hour)
	}
	if err != nil {
		d.to.Close()
		return nil, err
	}
	return d, nil
}

// repositoryURL is where a repository is.
func (b *bootstrap) repositoryURL(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return strings.TrimSuffix(cmp.Or(b.BaseURL, "https://github.com"), "/") + "/" + strings.Trim(b.Organisation+"/"+name, "/") + ".git"
}

func (b *bootstrap) read(ctx context.Context, s *Server, at source.Location) (source.Tree, error) {
	with, err := b.credential()
	if err != nil {
		return source.Tree{}, err
	}
	return source.Choose{Git: s.git}.Read(ctx, at, with, source.Limits{})
}

// below are the files of a directory of a tree.
func below(tree source.Tree, dir string) map[string]source.File {
	out := map[string]source.File{}
	for name, f := range tree.Files {
		if inner, ok := strings.CutPrefix(name, dir+"/"); ok {
			out[inner] = f
		} else if dir == "." {
			out[name] = f
		}
	}
	return out
}

// repository reads one, adds its templates and sends its environments.
func (b *bootstrap) repository(ctx context.Context, d *desk, name string) (r BootstrapRepository, sent bool) {
	r.Name = name
	tree, err := b.read(ctx, d.to, source.Location{Repository: b.repositoryURL(name)})
	if err != nil {
		r.Error = err.Error()
		return r, false
	}
	r.Commit = tree.Commit
	versions := map[string]string{} // by name of the template
	var wrong []string
	for _, dir := range templateDirs(tree) {
		if name == b.Prefix+"meta" && dir == b.where.kind {
			continue // Drover itself is made of it
		}
		part := source.Tree{Commit: tree.Commit, Files: below(tree, dir), Author: tree.Author, Time: tree.Time, Message: tree.Message}
		o, err := d.add(ctx, part, b.repositoryURL(name)+"//"+dir)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", dir, err))
			continue
		}
		of, _, _ := strings.Cut(o.ID, "@")
		versions[of] = o.ID
		r.Templates = append(r.Templates, o.ID)
	}
	for _, file := range slices.Sorted(keysOf(tree.Files)) {
		if dir, base := path.Split(file); dir != "environments/" || !strings.HasSuffix(base, ".yaml") && !strings.HasSuffix(base, ".yml") {
			continue
		}
		order, err := parseEnvironment(file, tree.Files[file].Data)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if version, ours := versions[order.Template]; ours {
			order.Template = version
		}
		e := BootstrapEnvironment{Name: order.Name}
		if e.Phase, err = d.send(ctx, name, order); err != nil {
			e.Error = err.Error()
		}
		sent = sent || e.Phase == "sent"
		r.Environments = append(r.Environments, e)
	}
	r.Error = strings.Join(wrong, "\n")
	return r, sent
}

// add keeps a template, which is not the one that Drover itself is made of, and runs
// no commands on its machine, nor does any in a directory of it: that is an operator's.
func (d *desk) add(ctx context.Context, tree source.Tree, from string) (ledger.Object, error) {
	for name := range tree.Files {
		dir, base := path.Split(name)
		if base != "template.yaml" {
			continue
		}
		files := map[string][]byte{}
		for name, f := range below(tree, path.Clean(dir)) {
			files[name] = f.Data
		}
		o, _, err := d.to.templates.Add(ctx, template.Addition{Files: files, Origin: from, DryRun: true})
		if err != nil {
			return o, err
		}
		var sum template.Summary
		if err := json.Unmarshal(o.Spec, &sum); err != nil {
			return o, err
		}
		if sum.Template == d.meta {
			return o, fault.New(fault.Denied, "Drover itself is made of the template %s: give this one another name", sum.Template).Because("template")
		}
		if len(sum.Actions) > 0 || slices.Contains(sum.Executors, "action") || slices.Contains(sum.Executors, "terraform") {
			return o, fault.New(fault.Denied, "template %s runs commands on the server (actions, or the executors action and terraform): an operator adds it, with `drover template add`", sum.Template).Because("commands")
		}
	}
	o, _, err := d.to.templates.AddTree(ctx, tree, from)
	return o, err
}

func keysOf(m map[string]source.File) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

// templateDirs are the directories with a template, those below another one's left
// out: they are its parts.
func templateDirs(tree source.Tree) (out []string) {
	var all []string
	for name := range tree.Files {
		if dir, base := path.Split(name); base == "template.yaml" && strings.Count(dir, "/") <= 2 {
			all = append(all, cmp.Or(strings.TrimSuffix(dir, "/"), "."))
		}
	}
	for _, dir := range all {
		if !slices.ContainsFunc(all, func(d string) bool { return d == "." && dir != "." || strings.HasPrefix(dir, d+"/") }) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

// send has the new Drover make an environment, by a command on its bus, and waits
// until that is taken. One that is there stays as it is.
func (d *desk) send(ctx context.Context, repository string, order v1.CreateEnvironment) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	there, err := d.to.environments.Get(ctx, order.Name)
	if err == nil && there.Deleted.IsZero() {
		return "there", nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	data, err := json.Marshal(order)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(repository+"\x00"), data...))
	id := fmt.Sprintf("%s-%x", order.Name, sum[:12])
	body, err := json.Marshal(map[string]any{"specversion": "1.0", "id": id, "source": bootSource,
		"type": command.TypePrefix + "environment.create", "time": time.Now().UTC().Format(time.RFC3339), "datacontenttype": "application/json", "data": json.RawMessage(data)})
	if err != nil {
		return "", err
	}
	m := bus.Message{ID: id, Type: command.TypePrefix + "environment.create", ContentType: "application/cloudevents+json", Time: time.Now().UTC(),
		Headers: map[string]string{"authorization": "Bearer " + d.token}, Body: body}
	for { // the queue is there once the server takes commands
		err := d.bus.Send(ctx, command.Queue, m)
		if err == nil {
			break
		}
		if !fault.Is(err, fault.NotFound) || ctx.Err() != nil {
			return "", err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "sent", d.taken(ctx, ledger.Ref{Kind: command.Kind.Name, ID: command.ID("local", "admin", bootSource, id)})
}

// taken waits until a command is on record.
func (d *desk) taken(ctx context.Context, ref ledger.Ref) error {
	for {
		o, err := d.to.ledger.Get(ctx, ref)
		if err == nil {
			c, err := command.Decode(o)
			if err == nil && (c.Phase == command.Rejected || c.Phase == command.Failed) {
				err = fault.New(fault.Invalid, "the new Drover refuses it: %s", c.Status.Message)
			}
			return err
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fault.New(fault.Unavailable, "the new Drover did not take the command in time; run the same command again")
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.Join(ctx.Err())
	case <-time.After(d):
		return nil
	}
}
