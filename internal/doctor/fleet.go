package doctor

import (
	"fmt"
	"strings"
	"time"
)

// asideMany is how many messages that were put aside nobody has looked after for long:
// where the broker has no policy for them they fill its disk.
const asideMany = 10_000

// lostTime is for how long it is told that a queue was deleted.
const lostTime = time.Hour

func bus(f Facts) (out []Finding) {
	b := f.Bus
	switch {
	case b.Blocked && b.Trouble != "":
		out = append(out, Finding{ID: "bus-blocked", Severity: Critical, What: "the broker takes no messages", Why: short(b.Trouble),
			Do: []string{"rabbitmq-diagnostics alarms   # on the broker: free its disk or memory", "events wait in the ledger and commands in their queue; nothing is lost"}})
	case b.Trouble != "":
		out = append(out, Finding{ID: "bus-away", Severity: Critical, What: "the broker cannot be reached", Why: short(b.Trouble),
			Do: []string{"rabbitmq-diagnostics ping   # on the broker; then --bus-options: address, account, certificate", "events wait in the ledger and are told when it is back; REST goes on"}})
	}
	for _, l := range b.Lost {
		if f.Now.Sub(l.At) > lostTime {
			continue
		}
		out = append(out, Finding{ID: "bus-queue-deleted", Severity: Warning, What: fmt.Sprintf("the queue %s was not there any more at %s: it was made anew, and what lay in it is lost", l.Queue, l.At.UTC().Format(time.TimeOnly)),
			Why: "somebody has deleted it, or the broker is another one: that forgets a queue with all that is in it; those who have sent commands within a day are told at their reply addresses",
			Do:  []string{"tell those who send commands without a reply address: who has heard neither accepted nor rejected sends again, with the same id", "rabbitmqctl list_permissions   # on the broker: who may configure drover's queues can delete them"}})
	}
	if b.Full {
		out = append(out, Finding{ID: "bus-aside-full", Severity: Critical, What: "messages that nobody can take cannot be put aside: drover.dead is full",
			Why: "nothing is lost: they stay in drover.commands, and commands wait behind them",
			Do:  []string{"drover bus dlq list", "drover bus dlq drop KEY   # or raise the bound that the broker's policy gives drover.dead"}})
	}
	if b.Aside > 0 {
		severity := Warning
		if b.Aside >= asideMany {
			severity = Critical
		}
		out = append(out, Finding{ID: "bus-aside", Severity: severity, Count: int64(b.Aside), What: number(int64(b.Aside), "message was put aside, because nobody could take it", "messages were put aside, because nobody could take them"),
			Why: "each has its reason beside it; their senders were told where the message said how", Do: []string{"drover bus dlq list", "drover bus dlq show KEY, then retry KEY or drop KEY"}})
	}
	return out
}

func subscriptions(f Facts) (out []Finding) {
	var off, slow, lost []string
	var first [3]string
	note := func(list *[]string, i int, s Subscription, why string) {
		if len(*list) == 0 {
			first[i] = s.ID
		}
		*list = append(*list, fmt.Sprintf("%s: %s", s.Name, short(why)))
	}
	for _, s := range f.Subscriptions {
		switch {
		case s.Phase == "failing" && s.Broker && f.Bus.Trouble == "":
			out = append(out, Finding{ID: "bus-held-up", Severity: Critical, What: "the broker is there and refuses events: all its followers wait", Why: short(s.Why),
				Do: []string{"rabbitmqctl list_queues name messages arguments policy   # on the broker: a full one with x-overflow reject-publish holds everybody up",
					"read, purge or delete that queue; nothing is lost: events wait in the ledger, and are told in order"}})
		case s.Phase == "disabled" && !s.Off:
			note(&off, 0, s, s.Why)
		case s.Phase == "failing":
			note(&slow, 1, s, s.Why)
		}
		if s.Lost > 0 {
			note(&lost, 2, s, fmt.Sprintf("%d changes", s.Lost))
		}
	}
	if len(off) > 0 {
		out = append(out, Finding{ID: "subscription-disabled", Severity: Warning, Count: int64(len(off)), What: number(int64(len(off)), "subscription was switched off, because its receiver failed for too long", "subscriptions were switched off, because their receivers failed for too long"),
			Why: "nothing is sent to them any more; what they missed is in the log", Examples: few(off),
			Do: []string{"drover describe subscription " + first[0], "drover subscription enable " + first[0] + "   # once its receiver is mended"}})
	}
	if len(slow) > 0 {
		out = append(out, Finding{ID: "subscription-failing", Severity: Warning, Count: int64(len(slow)), What: number(int64(len(slow)), "subscription cannot be told", "subscriptions cannot be told"),
			Why: "it is sent again, in order; one that fails for a day is switched off", Examples: few(slow), Do: []string{"drover describe subscription " + first[1]}})
	}
	if len(lost) > 0 {
		do := []string{"have the receiver read everything anew: drover get KIND -o json", "raise --log-retention"}
		if first[2] != "bus" && first[2] != "answers" { // the broker's are the server's own
			do = append(do, "drover subscription enable "+first[2]+"   # afterwards: then it is told of no more")
		}
		out = append(out, Finding{ID: "subscription-lost", Severity: Warning, Count: int64(len(lost)), What: number(int64(len(lost)), "subscription has missed changes for good", "subscriptions have missed changes for good"),
			Why: "--log-retention removed them before they were told", Examples: few(lost), Do: do})
	}
	return out
}

func clusters(f Facts) (out []Finding) {
	var silent, failed, unready []string
	var first [3]string
	note := func(list *[]string, i int, c Cluster) {
		if len(*list) == 0 {
			first[i] = c.ID
		}
		*list = append(*list, fmt.Sprintf("%s: %s", c.ID, short(c.Message)))
	}
	for _, c := range f.Clusters {
		switch {
		case c.Phase == "failed":
			note(&failed, 0, c)
		case c.Silent:
			note(&silent, 1, c)
		case c.Phase != "ready" && c.Message != "":
			note(&unready, 2, c)
		}
	}
	if len(failed) > 0 {
		out = append(out, Finding{ID: "cluster-failed", Severity: Critical, Count: int64(len(failed)), What: number(int64(len(failed)), "cluster has failed", "clusters have failed"),
			Why: "nothing is placed there", Examples: few(failed), Do: []string{"drover describe cluster " + first[0]}})
	}
	if len(silent) > 0 {
		out = append(out, Finding{ID: "agent-silent", Severity: Critical, Count: int64(len(silent)), What: number(int64(len(silent)), "cluster is not heard of: its agent is silent", "clusters are not heard of: their agents are silent"),
			Why: "what runs there goes on; nothing new is placed there, and no change arrives", Examples: few(silent),
			Do: []string{"drover describe cluster " + first[1], "on the data plane: does drover agent run, and does it reach this server? its log says \"cannot reach the control plane\" with the reason"}})
	}
	if len(unready) > 0 {
		out = append(out, Finding{ID: "cluster-unready", Severity: Warning, Count: int64(len(unready)), What: number(int64(len(unready)), "cluster is not ready", "clusters are not ready"),
			Why: "nothing is placed there until they are", Examples: few(unready), Do: []string{"drover describe cluster " + first[2]}})
	}
	return out
}

// resting are the breakers of agents. What one that is silent said last is no news.
func resting(f Facts) []Finding {
	var list []string
	first := ""
	for _, c := range f.Clusters {
		if c.Resting == "" || c.Silent {
			continue
		}
		if len(list) == 0 {
			first = c.ID
		}
		list = append(list, c.ID+": "+short(c.Resting))
	}
	if len(list) == 0 {
		return nil
	}
	return []Finding{{ID: "agent-call-breaker", Severity: Warning, Count: int64(len(list)), What: number(int64(len(list)), "agent gives a service a rest, because it failed", "agents give services a rest, because they failed"),
		Why: "what needs it there waits, and goes on by itself once it answers", Examples: few(list),
		Do: []string{"drover describe cluster " + first, "on the data plane: look at the service; the agent's log says since when it rests, and drover_call_breaker_open at its --health address"}}}
}

// heard are the clusters of which something is told.
func heard(f Facts, is func(Cluster) bool) (ids []string) {
	for _, c := range f.Clusters {
		if is(c) && !c.Silent {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func noHealth(f Facts) []Finding {
	mute := heard(f, func(c Cluster) bool { return c.NoHealth })
	if len(mute) == 0 {
		return nil
	}
	return []Finding{{ID: "argocd-health", Severity: Note, Count: int64(len(mute)), What: number(int64(len(mute)), "Argo CD does not tell the health of single resources", "Argo CDs do not tell the health of single resources"),
		Why: "deployments there tell their health as a whole, and not which resource it comes from", Examples: few(mute),
		Do: []string{`kubectl -n argocd patch configmap argocd-cmd-params-cm --type merge -p '{"data":{"controller.resource.health.persist":"true"}}'`, "kubectl -n argocd rollout restart statefulset argocd-application-controller"}}}
}

// leftovers are told alone: that nobody knows them here does not mean that nobody wants them.
func leftovers(f Facts) []Finding {
	var list []string
	for _, c := range f.Clusters {
		if c.Left != "" && !c.Silent {
			list = append(list, c.ID+": "+short(c.Left))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []Finding{{ID: "argocd-leftover", Severity: Warning, Count: int64(len(list)), What: number(int64(len(list)), "Argo CD has Applications of Drover that no deployment is about", "Argo CDs have Applications of Drover that no deployment is about"),
		Why: "their deployments are gone, and so is what the agent kept of them: they and what they have deployed are left alone", Examples: few(list),
		Do: []string{"kubectl -n argocd get application NAME -o yaml   # whose it was, and whether somebody wants it", "kubectl -n argocd delete application NAME   # otherwise; what it has deployed goes along if it has Argo CD's finalizer"}}}
}

func jsonnet(f Facts) []Finding {
	open := heard(f, func(c Cluster) bool { return c.Jsonnet })
	if len(open) == 0 {
		return nil
	}
	return []Finding{{ID: "argocd-jsonnet", Severity: Warning, Count: int64(len(open)), What: number(int64(len(open)), "Argo CD evaluates Jsonnet", "Argo CDs evaluate Jsonnet"),
		Why: "it can read files of Argo CD's repository server, so that whoever names a repository may", Examples: few(open),
		Do: []string{`kubectl -n argocd patch configmap argocd-cm --type merge -p '{"data":{"jsonnet.enable":"false"}}'   # unless all workspaces may`}}}
}

func versions(f Facts) []Finding {
	var other []string
	for _, c := range f.Clusters {
		if c.Version != "" && f.Version != "" && c.Version != f.Version {
			other = append(other, c.ID+": "+short(c.Version))
		}
	}
	if len(other) == 0 {
		return nil
	}
	return []Finding{{ID: "agent-version", Severity: Note, Count: int64(len(other)), What: fmt.Sprintf("%s than the server (%s)", number(int64(len(other)), "cluster has an agent of another version", "clusters have agents of another version"), short(f.Version)),
		Why: "they understand each other; what is new in one, the other may not do", Examples: few(other), Do: []string{"upgrade the agents: docs/kubernetes-install.md"}}}
}

func troubled(f Facts) (out []Finding) {
	for _, t := range f.Troubled {
		if t.Count == 0 {
			continue
		}
		do := "drover get " + t.Kind
		if len(t.Examples) > 0 {
			do = "drover describe " + t.Kind + " " + t.Examples[0].ID
		}
		var examples []string
		for _, x := range t.Examples[:min(len(t.Examples), maxNamed)] {
			examples = append(examples, strings.TrimSuffix(fmt.Sprintf("%s (%s) of %s", x.Name, x.ID, x.Org), " of "))
		}
		if n := int64(len(examples)); n > 0 && t.Count > n {
			examples = append(examples, fmt.Sprintf("and %d more", t.Count-n))
		}
		out = append(out, Finding{ID: t.Kind + "-failed", Severity: Warning, Count: t.Count, What: number(t.Count, t.Kind+" has failed", t.Title+" have failed"),
			Why: "each tells its owner why", Examples: examples, Do: []string{do}})
	}
	return out
}

func certificate(f Facts) []Finding {
	c := f.Certificate
	if c == nil {
		return nil
	}
	found := Finding{ID: "certificate", Severity: Critical, Do: []string{"openssl x509 -noout -dates -in " + c.Path, "renew it in its place: it is read again by itself, and told to the data planes"}}
	left := c.Ends.Sub(f.Now)
	switch {
	case c.Wrong != "":
		found.What, found.Why = "the certificate of the instances' hosts cannot be used", short(c.Wrong)
	case left <= 0:
		found.What, found.Why = "the certificate of the instances' hosts has ended", "at "+c.Ends.UTC().Format(time.RFC3339)+": clients refuse it, and instances that ask for one wait"
	case left < expiring:
		found.What, found.Why = "the certificate of the instances' hosts ends soon", fmt.Sprintf("at %s, in %d days", c.Ends.UTC().Format(time.RFC3339), int(left.Hours()/24))
		if left >= expiresNow {
			found.Severity = Warning
		}
	default:
		return nil
	}
	return []Finding{found}
}

func unknown(f Facts) (out []Finding) {
	for _, u := range f.Unknown {
		out = append(out, Finding{ID: "unknown", Severity: Warning, What: u.What + " could not be looked at", Why: short(u.Why), Do: []string{"drover doctor   # again, once what is above is mended"}})
	}
	return out
}

func resources(f Facts) []Finding {
	if f.Resources == "" {
		return nil
	}
	return []Finding{{ID: "custom-resources", Severity: Critical, What: "custom resources of Kubernetes are not followed: what is applied there has no effect",
		Why: short(f.Resources), Do: []string{"drover deploy manifests   # are they applied, and is the server's account the one that they bind?",
			"look at --gitops-options, and whether that API answers from this machine"}}}
}

// strays are namespaces that whoever labelled them expects to be served by somebody else.
func strays(f Facts) []Finding {
	if len(f.Strays) == 0 {
		return nil
	}
	var list []string
	why := "what is deployed there is carried out by another cluster than the label says"
	for _, s := range f.Strays {
		by := s.By
		if by == "" {
			by, why = "nobody", "the server was started without engines=: nobody carries out what is deployed there"
		}
		list = append(list, fmt.Sprintf("%s: drover.dev/engine is %s, carried out by %s", short(s.Namespace), short(s.Label), by))
	}
	n := int64(len(list))
	return []Finding{{ID: "engine-unknown", Severity: Warning, Count: n, What: number(n, "namespace names a cluster that is not among engines=", "namespaces name clusters that are not among engines="),
		Why: why, Examples: few(list), Do: []string{"kubectl label namespace " + short(f.Strays[0].Namespace) + " drover.dev/engine-   # or name one of engines=", "or start the server with that cluster among --gitops-options engines=A:B"}}}
}
