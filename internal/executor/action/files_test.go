package action_test

import (
	"context"
	"io"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
)

// A program that lies beside the template is found there.
func TestProgramOfTheTemplate(t *testing.T) {
	e := action.New(action.NewRunner(action.Config{Cache: t.TempDir(), Work: t.TempDir()}))
	r := executor.Resource{ID: "r1", Address: "hello", Log: io.Discard, Save: func(context.Context, []byte) error { return nil },
		Inputs: map[string]any{
			"app":     map[string]any{"name": "hello", "url": "file:./bin/hello"},
			"command": []any{"hello"},
		},
		Files: func(context.Context) (map[string][]byte, error) {
			return map[string][]byte{"bin/hello": []byte("#!/bin/sh\necho hello from the template\n")}, nil
		},
	}
	got, err := e.Apply(t.Context(), r)
	if err != nil || !got.Done || got.Outputs["stdout"] != "hello from the template\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	r.Files = nil
	if _, err := e.Plan(t.Context(), r); err == nil {
		t.Error("a program that is nowhere was planned")
	}
}
