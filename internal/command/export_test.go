package command

import "context"

// TellLost tells once, now.
func (s *Service) TellLost(ctx context.Context) error { return s.warn(ctx, s.Now(), map[string]bool{}) }
