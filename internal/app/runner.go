package app

import (
	"context"
	"io"

	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/template"
)

// actions runs the commands of templates' actions as the executor of commands does.
type actions struct{ *action.Runner }

func perform(c template.Command, files map[string][]byte) action.Command {
	out := action.Command{App: action.App(c.App), Argv: c.Argv, Env: c.Env, Timeout: c.Timeout, Secrets: c.Secrets, Files: map[string]action.File{}}
	for name, data := range files {
		out.Files[name] = action.File{Data: data}
	}
	return out
}

func (a actions) Check(c template.Command, files map[string][]byte) error {
	return a.Runner.Check(perform(c, files))
}

func (a actions) Run(ctx context.Context, c template.Command, files map[string][]byte, log io.Writer) error {
	run := perform(c, files)
	run.Log = log
	out, err := a.Runner.Run(ctx, run)
	if err == nil && out.Exit != 0 {
		err = out.Failed(c.Argv[0])
	}
	return err
}
