//go:build !unix

package action

import "os/exec"

// There are no groups here: what a program starts is its own business.
func group(*exec.Cmd) {}

func end(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }
