package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/droverhq/drover/api/v1"
)

// showPlan tells where orders would go, by cluster.
func (c *CLI) showPlan(e v1.Explanation, all bool) error {
	safe := func(text string) string { return clean(text, false) }
	type heap struct {
		cluster, reason string
		n               int64
	}
	var heaps []*heap
	var lost []v1.Verdict
	var first *v1.Verdict // that does not fit, or else the first
	for i, v := range e.Orders {
		if !v.Fits {
			lost = append(lost, v)
			continue
		}
		at := slices.IndexFunc(heaps, func(h *heap) bool { return h.cluster == v.Cluster })
		if at < 0 {
			at, heaps = len(heaps), append(heaps, &heap{cluster: v.Cluster, reason: v.Reason})
		}
		heaps[at].n++
		if first == nil {
			first = &e.Orders[i]
		}
	}
	c.printf("%s of %s (%s each) in %s/%s: %d fit", count(int64(len(e.Orders)), "order"), safe(e.Plan), count(e.Units, "unit"), safe(e.Provider), safe(e.Region), len(e.Orders)-len(lost))
	if len(lost) > 0 {
		c.printf(", %d do not", len(lost))
	}
	c.printf("\n")
	if e.Limit != nil {
		c.printf("the region takes %d units of this type, %d are taken\n", e.Limit.Units, e.Limit.Taken)
	}
	if len(heaps) > 0 {
		c.printf("\n")
		t := &table{head: []string{"CLUSTER", "ORDERS", "WHY THE FIRST OF THEM"}}
		told := heaps[0].cluster != ""
		if !told { // tenants are not
			t.head = t.head[1:]
		}
		for _, h := range heaps {
			cells := []string{h.cluster, strconv.FormatInt(h.n, 10), h.reason}
			if !told {
				cells = cells[1:]
			}
			t.add(cells...)
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		first = &lost[0]
		c.printf("\n%s: %s\n", capital(some(without(lost), 3)), safe(lost[0].Reason))
	}
	if first == nil {
		return nil
	}
	return c.whyNot(first.Others, all)
}

// without words how many find no place.
func without(lost []v1.Verdict) []string {
	if len(lost) == 1 {
		return []string{"1 order finds no place"}
	}
	return []string{fmt.Sprintf("%d orders find no place", len(lost))}
}

func (c *CLI) capacityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Units by region and instance type, and what scaling says (operators)",
		Long: `Tells what every region has of each instance type that is sold there: units that fit in
all, that are in use, that are free, and the largest piece that is free on one cluster.
Types that share clusters share what is free. The same as ` + "`drover get capacity`" + `.`,
		Example: `  drover placement capacity
  drover get capacity -o json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.capacity(cmd) },
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (c *CLI) capacity(cmd *cobra.Command) error {
	s, err := c.connect(cmd)
	if err != nil {
		return err
	}
	all, err := s.Capacity(cmd.Context())
	if err != nil {
		return err
	}
	switch format := output(cmd); format {
	case "json", "yaml":
		return c.print(format, all)
	case "name":
		return usagef("capacity has no names: -o table, json or yaml")
	}
	if len(all.Items) == 0 {
		c.note("nothing is sold in any region")
	} else {
		t := &table{head: []string{"PROVIDER", "REGION", "OFFERING", "TYPE", "CLUSTERS", "USED", "FREE", "MAX", "LARGEST", "SLACK", "NOTE"}}
		for _, i := range all.Items {
			n := func(v int64) string { return strconv.FormatInt(v, 10) }
			t.add(i.Provider, i.Region, i.Offering, i.Type, strconv.Itoa(i.Clusters), n(i.Used), n(i.Free), n(i.Max), n(i.Largest), n(i.Slack), roomNote(i))
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if len(all.Scaling) == 0 {
		return nil
	}
	c.printf("\n")
	t := &table{head: []string{"PROFILE", "PLACE", "DECISION", "WHY", "LAST"}}
	for _, n := range all.Scaling {
		t.add(n.Profile, n.Place, decision(n), n.Reason, c.ago(n.At))
	}
	return t.write(c.cfg.Out)
}

// roomNote says what an operator should look at.
func roomNote(i v1.Capacity) string {
	note := ""
	switch {
	case i.Clusters == 0:
		note = "no ready cluster hosts it"
	case i.Free == 0:
		note = "full"
	case i.Free < i.Slack:
		note = "less is free than is to be"
	}
	if i.Aside > 0 {
		if note != "" {
			note += "; "
		}
		note += fmt.Sprintf("%s more in use on clusters that are set aside or not ready", count(i.Aside, "unit"))
	}
	return note
}

// decision is what scaling does in a place, in words.
func decision(n v1.ScaleNote) string {
	text := map[string]string{"stay": "nothing", "up": "makes a cluster", "down": "removes a cluster"}[n.Do]
	if n.DryRun {
		text = map[string]string{"stay": "nothing", "up": "would make a cluster", "down": "would remove a cluster"}[n.Do]
	}
	if text == "" {
		text = n.Do
	}
	if n.Cluster != "" && n.Do != "stay" {
		text += " (" + n.Cluster + ")"
	}
	return text
}

func (c *CLI) ago(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "never"
	}
	return age(c.now().Sub(*at)) + " ago"
}

// completePlaces completes --provider and --region with what offerings are sold in.
func (c *CLI) completePlaces(cmd *cobra.Command) {
	for flag, pick := range map[string]func(sold) []string{"provider": sold.providers, "region": sold.regions} {
		cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, err := c.allSold(cmd)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var out []cobra.Completion
			for _, s := range found {
				out = append(out, pick(s)...)
			}
			slices.Sort(out)
			return slices.DeleteFunc(slices.Compact(out), func(w string) bool { return !strings.HasPrefix(w, prefix) }), cobra.ShellCompDirectiveNoFileComp
		})
	}
}
