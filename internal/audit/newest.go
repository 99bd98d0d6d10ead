package audit

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// newest is the end of the chain as this process has sealed or seen it last. The
// database alone cannot tell that its newest blocks were removed: whoever seals
// after that would sign whatever is there now in their place.
type newest struct {
	epoch int64 // that the ledger was in
	block int64 // 0: none was seen
	hash  ledger.Hash
}

// look returns the last block, nil if there is none. A chain that does not go on
// from what was seen of it is an error, unless the ledger is in a higher epoch:
// then a backup was restored.
func (s *Service) look(ctx context.Context, head ledger.Head) (*ledger.Block, error) {
	// Read under the lock: what was read before another had sealed would seem cut off.
	s.looking.Lock()
	defer s.looking.Unlock()
	found, err := s.Store.Blocks(ctx, 0, -1)
	if err != nil {
		return nil, err
	}
	var last *ledger.Block
	if len(found) > 0 {
		last = &found[0]
	}
	if was := s.newest; was.block > 0 && head.Epoch <= was.epoch {
		same := last
		if last != nil && last.Number > was.block { // others have sealed meanwhile
			if found, err = s.Store.Blocks(ctx, was.block-1, 1); err != nil {
				return nil, err
			}
			if same = nil; len(found) > 0 {
				same = &found[0]
			}
		}
		if same == nil || same.Number != was.block || same.Hash(head.Ledger) != was.hash {
			return nil, fault.New(fault.Conflict, "block %d (%s) was sealed, and is gone or another one: the log is not sealed any further; run `drover ledger verify --against` the heads that you have kept, and keep the database as it is; if a backup was restored, start every server with a higher --epoch", was.block, was.hash).Because("flaw")
		}
	}
	s.newest = newest{epoch: head.Epoch}
	if last != nil {
		s.newest.block, s.newest.hash = last.Number, last.Hash(head.Ledger)
	}
	return last, nil
}

// remember keeps what was just sealed.
func (s *Service) remember(head ledger.Head, b *ledger.Block) {
	s.looking.Lock()
	defer s.looking.Unlock()
	if b.Number > s.newest.block {
		s.newest = newest{head.Epoch, b.Number, b.Hash(head.Ledger)}
	}
}

// glance has this process know the end of the chain while another one seals. What
// it finds wrong it finds again when it is to seal, and tells then.
func (s *Service) glance(ctx context.Context) {
	if head, err := s.Store.Head(ctx); err == nil {
		_, _ = s.look(ctx, head)
	}
}
