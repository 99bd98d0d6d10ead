package runtime

// Foremost are as many of a list as there is room for, in its order. Those in trouble
// stay first: nobody looks for what is in order.
func Foremost[T interface{ Troubled() bool }](all []T, room int) []T {
	if len(all) <= room {
		return all
	}
	keep := make([]bool, len(all))
	left := room
	for _, trouble := range []bool{true, false} {
		for i := range all {
			if left > 0 && all[i].Troubled() == trouble {
				keep[i] = true
				left--
			}
		}
	}
	out := make([]T, 0, room)
	for i := range all {
		if keep[i] {
			out = append(out, all[i])
		}
	}
	return out
}

// Troubled reports whether something is the matter with an object.
func (r DeployedResource) Troubled() bool {
	return r.Status != "Synced" || r.Health != nil && r.Health.Status != "Healthy"
}

// Troubled reports whether a sync did not do with an object what it was to.
func (r SyncedResource) Troubled() bool { return r.Status != "Synced" && r.Status != "Pruned" }
