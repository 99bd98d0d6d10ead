package fault

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// instances lists the running instances of a data directory, by their working
// directory, whoever started them.
func instances(dir string) []int {
	dir, _ = filepath.EvalSymlinks(dir)
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
	return pids
}

func countInstances(dir string) int { return len(instances(dir)) }

// killInstances ends what a test has left running in its own directory.
func killInstances(dir string) {
	for _, pid := range instances(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
