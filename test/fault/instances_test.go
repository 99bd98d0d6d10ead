package fault

import "github.com/droverhq/drover/test/drover"

func countInstances(dir string) int { return len(drover.Instances(dir)) }

func killInstances(dir string) { drover.Clear(dir) }
