package drover

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Instances lists the processes that run instances for a data directory, by
// their working directory, whoever started them. It reads /proc.
func Instances(dir string) []int {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if strings.Contains(string(cmdline), "\x00dinosaur") && strings.HasPrefix(cwd, filepath.Join(dir, "runtime")) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// KillInstances ends the processes that run now.
func KillInstances(dir string) (killed int) {
	for _, pid := range Instances(dir) {
		if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
			killed++
		}
	}
	return killed
}

// Clear ends what a test has left running in its own directory, after it has
// ended whoever would start more. It looks more than once: a process that was
// just being started shows its command a moment later, and its parent's until then.
func Clear(dir string) {
	deadline := time.Now().Add(10 * time.Second)
	for quiet := 0; quiet < 3; quiet++ {
		if KillInstances(dir) > 0 || unborn(dir) && time.Now().Before(deadline) {
			quiet = 0
		}
		time.Sleep(10 * time.Millisecond) // nothing signals the birth of another's child
	}
}

// unborn tells whether there is a process with the arguments of one that has ended.
func unborn(dir string) bool {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(commands, func(file string) bool {
		command, _ := os.ReadFile(file)
		return strings.Contains(string(command), "\x00--data-dir\x00"+dir+"\x00")
	})
}
