package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

type getFlags struct {
	list  client.ListOptions
	at    string
	watch bool
}

func (c *CLI) getCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get [RESOURCE [NAME...]]",
		Short: "List things, or show some by name",
		Example: `  drover get                                  # which resources the server has
  drover get dinosaurs                        # a table
  drover get dinosaurs --watch                # and every change to it, as it happens
  drover get dinosaurs --search "region = local and name like 'r%'" --order-by "created_at desc"
  drover get clusters                         # phases, room, agents
  drover get capacity                         # units by region and type (operators)
  drover get connections                      # where executors work, and for whom (operators)
  drover get dinosaur rex -o yaml
  drover get dinosaur rex --at 2026-05-01T12:00:00Z   # as it was; also --at 4711, a sequence
  drover get dinosaurs -o name | xargs drover describe`,
		ValidArgsFunction: c.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.listResources(cmd)
			}
			word, names, err := targets(args)
			if err != nil {
				return err
			}
			if strings.EqualFold(word, "capacity") { // of the fleet, which is no object
				if len(names) > 0 || f != (getFlags{}) {
					return usagef("capacity is one table: `drover get capacity`")
				}
				return c.capacity(cmd)
			}
			if strings.EqualFold(word, "connections") || strings.EqualFold(word, "connection") { // of the server's files, likewise
				if f != (getFlags{}) {
					return usagef("connections are one table: `drover get connections`")
				}
				return c.connections(cmd, names)
			}
			s, r, err := c.reach(cmd, word)
			if err != nil {
				return err
			}
			switch {
			case f.watch && f.at != "":
				return usagef("--watch looks ahead and --at back: give one of them")
			case len(names) == 0 && f.at != "":
				return usagef("--at needs a name: `drover get %s NAME --at %s`", r.Singular, f.at)
			case len(names) > 0 && (f.list != client.ListOptions{}):
				return usagef("--search, --order-by, --page and --size are for lists: leave out the names")
			}
			return c.get(cmd.Context(), getRequest{session: s, resource: r, names: names, flags: f, format: output(cmd)})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "stay, and show changes as they happen")
	flags.StringVar(&f.list.Search, "search", "", "only those that match, e.g. \"phase = ready\"")
	flags.StringVar(&f.list.OrderBy, "order-by", "", "columns to sort by, e.g. \"name desc\"")
	flags.IntVar(&f.list.Page, "page", 0, "which page, from 1")
	flags.IntVar(&f.list.Size, "size", 0, "how many at most [100]")
	flags.IntVar(&f.list.Size, "limit", 0, "the same as --size")
	flags.StringVar(&f.at, "at", "", "as it was at a time (RFC 3339) or sequence of the log")
	outputFlag(cmd, "table", "wide", "json", "yaml", "name")
	return cmd
}

type getRequest struct {
	*session
	resource v1.Resource
	names    []string
	flags    getFlags
	format   string
}

func (c *CLI) get(ctx context.Context, r getRequest) error {
	page := v1.List{Items: []v1.Object{}}
	var missing []error
	if len(r.names) > 0 {
		for _, name := range r.names {
			o, err := r.find(ctx, r.resource, name, r.flags.at)
			var lost *notFoundError
			if errors.As(err, &lost) {
				missing = append(missing, err)
				continue
			}
			if err != nil {
				return err
			}
			page.Items = append(page.Items, o)
		}
		page.Page, page.Size, page.Total = 1, len(page.Items), int64(len(page.Items))
	} else {
		var err error
		if page, err = r.List(ctx, r.resource.Name, r.flags.list); err != nil {
			return err
		}
	}
	rows := c.objectTable(ctx, r, page.Items)
	if err := c.printObjects(r, page, rows); err != nil {
		return err
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	if r.flags.watch {
		return c.watchObjects(ctx, r, page, rows)
	}
	return nil
}

func (c *CLI) printObjects(r getRequest, page v1.List, rows *objectRows) error {
	switch r.format {
	case "json", "yaml":
		if r.flags.watch {
			for _, o := range page.Items {
				if err := c.printLine(r.format, o); err != nil {
					return err
				}
			}
			return nil
		}
		if len(r.names) == 1 && len(page.Items) == 1 {
			return c.print(r.format, page.Items[0])
		}
		if len(r.names) > 0 && len(page.Items) == 0 {
			return nil
		}
		return c.print(r.format, page)
	case "name":
		for _, o := range page.Items {
			c.printf("%s/%s\n", r.resource.Singular, clean(label(o), false))
		}
		return nil
	}
	if len(page.Items) == 0 && !r.flags.watch {
		if len(r.names) == 0 {
			c.note("%s", emptyText(r, page))
		}
		return nil
	}
	for _, o := range page.Items {
		rows.add(o)
	}
	if err := rows.table.write(c.cfg.Out); err != nil {
		return err
	}
	if more := page.Total - int64(len(page.Items)); len(r.names) == 0 && more > 0 && !r.flags.watch {
		c.note("%d of %d: --page %d shows the next, --size N more at once", len(page.Items), page.Total, max(page.Page, 1)+1)
	}
	return nil
}

func emptyText(r getRequest, page v1.List) string {
	switch {
	case page.Total > 0:
		return fmt.Sprintf("no %s on page %d: there are %d", r.resource.Name, page.Page, page.Total)
	case r.flags.list.Search != "":
		return "no " + r.resource.Name + " match the search"
	case slices.Contains(r.resource.Verbs, "create") && r.resource.Offering != "":
		return fmt.Sprintf("no %s yet: `drover create %s NAME --wait` makes one", r.resource.Name, r.resource.Singular)
	}
	return "no " + r.resource.Name
}

// watchObjects shows changes from the list's sequence on, so that none between
// the list and the watch is missed.
func (c *CLI) watchObjects(ctx context.Context, r getRequest, page v1.List, rows *objectRows) error {
	o := client.WatchOptions{After: client.FromNow, Resource: r.resource.Name, Lost: c.lost}
	if page.Seq > 0 {
		o.After = page.Seq
	}
	known := map[string]int64{}
	for _, item := range page.Items {
		known[item.ID] = item.Version
	}
	for change, err := range r.Watch(ctx, o) {
		if err != nil {
			return err
		}
		item := change.Object
		if _, wanted := known[item.ID]; len(r.names) > 0 && !wanted || item.Version <= known[item.ID] {
			continue
		}
		known[item.ID] = item.Version
		switch r.format {
		case "json", "yaml":
			err = c.printLine(r.format, item)
		case "name":
			c.printf("%s/%s\n", r.resource.Singular, clean(label(item), false))
		default:
			rows.refresh(ctx)
			rows.add(item)
			err = rows.table.write(c.cfg.Out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func fieldText(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// statusOf reads the two words that every kind's status may have for people.
func statusOf(o v1.Object) (reason, message string) {
	var status struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if json.Unmarshal(o.Status, &status) != nil {
		return "", ""
	}
	return status.Reason, status.Message
}

// why is the more telling of the two.
func why(o v1.Object) string {
	reason, message := statusOf(o)
	if reason != "" {
		return reason
	}
	if message == "" && o.Kind == "deployment" {
		return deployOf(o).trouble()
	}
	if message == "" && o.Kind == "syncrun" {
		return runTrouble(o)
	}
	return message
}

func (c *CLI) listResources(cmd *cobra.Command) error {
	s, err := c.connect(cmd)
	if err != nil {
		return err
	}
	all, err := s.Resources(cmd.Context())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b v1.Resource) int { return strings.Compare(a.Name, b.Name) })
	switch format := output(cmd); format {
	case "json", "yaml":
		return c.print(format, v1.Resources{Items: all})
	case "name":
		c.printf("%s\n", clean(strings.Join(plurals(all), "\n"), true))
		return nil
	}
	t := &table{head: []string{"RESOURCE", "SINGULAR", "KIND", "VERBS", "API"}}
	for _, r := range all {
		t.add(r.Name, r.Singular, r.Kind, strings.Join(r.Verbs, ","), r.API)
	}
	return t.write(c.cfg.Out)
}
