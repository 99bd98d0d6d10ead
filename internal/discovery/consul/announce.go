package consul

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/fault"
)

const (
	// forgotten is when Consul removes one that has not said a word for so long. A
	// clean end removes it at once.
	forgotten = "1h"
	farewell  = 3 * time.Second // for taking it back
	outputMax = 500             // bytes of why it is not well
)

// Announce implements discovery.Announcer. It has no goroutines of its own.
func (c *Client) Announce(ctx context.Context, self discovery.Self) {
	var told []string // the tags that Consul has; nil: it knows nothing
	for ctx.Err() == nil {
		state := self.State(ctx)
		tags := append([]string{}, state.Tags...)
		err := error(nil)
		if told == nil || !slices.Equal(told, tags) {
			if err = c.register(ctx, self, tags); err == nil {
				told = tags
			}
		}
		if err == nil {
			// One that has forgotten us, because it began anew, is told all.
			if err = c.say(ctx, self, state.Trouble); fault.Of(err) == fault.NotFound {
				if err = c.register(ctx, self, tags); err == nil {
					err = c.say(ctx, self, state.Trouble)
				}
			}
		}
		if ctx.Err() == nil {
			c.note(err)
		}
		pause := time.NewTimer(c.cfg.TTL / 3)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	// Who cannot be told finds out by the check.
	_ = c.policy.Once(end, func(ctx context.Context) error {
		return c.explain(ctx, c.api.Agent().ServiceDeregisterOpts(self.ID, (&api.QueryOptions{}).WithContext(ctx)))
	})
}

// Trouble implements discovery.Announcer.
func (c *Client) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

func (c *Client) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
}

func (c *Client) register(ctx context.Context, self discovery.Self, tags []string) error {
	in := &api.AgentServiceRegistration{
		ID: self.ID, Name: self.Service, Address: self.Host, Port: self.Port, Tags: tags, Meta: self.Meta,
		Check: &api.AgentServiceCheck{
			CheckID: check(self), Name: "ready", TTL: c.cfg.TTL.String(), DeregisterCriticalServiceAfter: forgotten,
			Notes: "fed by Drover from what /readyz says",
		},
	}
	if c.cfg.Sidecar {
		in.Connect = &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{}}
	}
	// Registering twice is registering once.
	return c.policy.Do(ctx, func(ctx context.Context) error {
		return c.explain(ctx, c.api.Agent().ServiceRegisterOpts(in, api.ServiceRegisterOpts{}.WithContext(ctx)))
	})
}

func (c *Client) say(ctx context.Context, self discovery.Self, trouble error) error {
	status, output := api.HealthPassing, "ready"
	if trouble != nil {
		status, output = api.HealthCritical, strings.ToValidUTF8(trouble.Error(), "?")
		output = output[:min(len(output), outputMax)]
	}
	return c.policy.Do(ctx, func(ctx context.Context) error {
		return c.explain(ctx, c.api.Agent().UpdateTTLOpts(check(self), output, status, (&api.QueryOptions{}).WithContext(ctx)))
	})
}

func check(self discovery.Self) string { return "service:" + self.ID }
