package drover

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// KillInstances ends what a test has left running in its own directory.
func KillInstances(dir string) {
	for _, pid := range Instances(dir) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}
