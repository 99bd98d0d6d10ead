package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Signal is what a site that leads tells the other one over the bus. It has that one look
// and ask at once, and tells it of an epoch; nobody is promoted by it.
type Signal struct {
	Kind  string    `json:"kind"`
	Site  string    `json:"site"` // whose it is
	To    string    `json:"to"`
	Epoch int64     `json:"epoch"` // that it leads in
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
}

const (
	SignalEpoch     = "epoch"     // it leads
	SignalPromotion = "promotion" // it leads because it was promoted
	SignalDrain     = "drain"     // it leads, and is about to end
)

// SignalQueue is where a site hears signals.
func SignalQueue(site string) string { return "drover.site." + site }

// Digest is what the sender of a signal vouches for.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// ReadSignal reads one that was sent to a site. Whether it is from the other one is for its
// token to say.
func ReadSignal(body []byte, to string) (Signal, error) {
	var s Signal
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fault.New(fault.Invalid, "a signal of a site is JSON: %w", err)
	}
	known := s.Kind == SignalEpoch || s.Kind == SignalPromotion || s.Kind == SignalDrain
	switch {
	case !known:
		return s, fault.New(fault.Invalid, "there is no signal %.64q", s.Kind)
	case s.To != to || s.Site == "" || s.Site == to:
		return s, fault.New(fault.Invalid, "it is not for this site, or not of the other one")
	case s.Epoch < 1:
		return s, fault.New(fault.Invalid, "nobody leads in epoch %d", s.Epoch)
	}
	return s, nil
}
