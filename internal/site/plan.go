package site

import (
	"fmt"
	"time"
)

const twin = "the other site has the same name, and a database of its own: start each with another --site"

// Within tells whether until is yet to come, by both clocks of the machine: the one that
// differences are taken of stands still while the machine sleeps, the one on the wall is set.
func Within(now, until time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// Plan decides what a site is and does next. Whoever leads has the highest epoch that
// is known of, and the lease where there is a witness. A site that was fenced stays so
// until its database is another one: of a higher epoch, or a standby.
func Plan(v View, now time.Time) Decision {
	if v.Role == Standalone {
		return Decision{State: Leading}
	}
	if !v.Database.Known {
		return Decision{State: Waiting, Why: "its database does not answer, or holds no ledger yet"}
	}
	own := v.Database.Epoch
	highest := max(v.Seen, v.Peer.Epoch)
	switch {
	case !v.Mine():
		return v.follow(now, highest)
	case v.Peer.Twin:
		return Decision{State: Waiting, Why: twin}
	case highest > own:
		return Decision{State: Fenced, Why: fmt.Sprintf("the other site has led in epoch %d, and this ledger is in %d: it may hold what nobody else has seen", highest, own)}
	case v.Peer.Leads && v.Peer.Epoch == own:
		return Decision{State: Fenced, Why: fmt.Sprintf("the other site leads in epoch %d, too: start one of them as a secondary", own)}
	case v.Witness:
		return v.lead(now)
	case v.Peer.Named && !v.Peer.Asked && !v.Word:
		return Decision{State: Waiting, Why: "it asks the other site first, which may have led meanwhile"}
	case v.Peer.Wanted && !v.Peer.Heard && !v.Word:
		return Decision{State: Waiting, Why: "the other site does not answer, and may lead: bring it back, or say that it is gone with `drover dr promote --primary-is-gone`"}
	}
	return Decision{State: Leading}
}

// Mine tells whether the database is this site's to lead with: no standby, and in an
// epoch that was begun here, or that nobody's promotion began. A copy of what the other
// site has begun is none, whatever the site was started as.
func (v View) Mine() bool {
	return !v.Database.Recovering && (v.Database.Begun == v.Site || v.Role == Primary && v.Database.Begun == "")
}

// lead leads while the lease is had.
func (v View) lead(now time.Time) Decision {
	if Within(now, v.Until) {
		return Decision{State: Leading, Acquire: true}
	}
	return Decision{State: Waiting, Acquire: true, Why: "it does not have the lease of the witness: the other site may lead, or the witness does not answer"}
}

// follow is for a site whose database is another's copy, or was until somebody other
// than Drover promoted it.
func (v View) follow(now time.Time, highest int64) Decision {
	d := Decision{State: Following}
	if !v.Database.Recovering {
		d.Why = "its database is no standby (any more), and nobody has said that this site is to lead: `drover dr promote`"
	}
	if !v.Word {
		return d
	}
	switch {
	case v.Peer.Twin:
		return v.not(twin)
	case v.Peer.Leads:
		return v.not("the primary answers, and leads")
	case highest > v.Database.Epoch:
		return v.not(fmt.Sprintf("somebody has led in epoch %d, and this copy has not come further than %d", highest, v.Database.Epoch))
	case v.Witness && !Within(now, v.Until):
		d.Acquire, d.Why = true, "it waits for the lease of the witness"
		return d
	}
	d.Acquire, d.Promote, d.Epoch = v.Witness, true, v.Database.Epoch+1
	return d
}

// not is a word that is not followed.
func (v View) not(why string) Decision {
	return Decision{State: Following, Why: "it is not promoted: " + why}
}
