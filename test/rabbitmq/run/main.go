// Command run runs a command with one RabbitMQ node for all of its tests, named by
// DROVER_TEST_RABBITMQ:
//
//	go run ./test/rabbitmq/run go test ./...
//
// It owns the node's life. test/with-rabbitmq.sh says where it comes from.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/droverhq/drover/test/rabbitmq"
)

// notStarted tells the script that there was no node, so that nothing was run.
const notStarted = 99

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bin, err := rabbitmq.Find()
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-rabbitmq:", err)
		return notStarted
	}
	fmt.Fprintln(os.Stderr, "with-rabbitmq: starting a node (this takes half a minute)")
	s, err := rabbitmq.New(ctx, bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-rabbitmq:", err)
		return notStarted
	}
	defer s.Release()
	fmt.Fprintln(os.Stderr, "with-rabbitmq: listening on", s.Addr)
	cmd := exec.CommandContext(ctx, os.Args[1], os.Args[2:]...)
	cmd.Env = append(os.Environ(), "DROVER_TEST_RABBITMQ="+s.URL)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-rabbitmq:", err)
		return 1
	}
	return 0
}
