//go:build !linux && !darwin

package app

import "github.com/droverhq/drover/internal/doctor"

// diskOf tells how much room there is; nil: nobody knows.
func diskOf(string) *doctor.Disk { return nil }
