package argocd

import "context"

// Redis is redis, with a way to fill it.
type Redis struct{ c redis }

// OpenRedis is a client of one.
func OpenRedis(address, password string) *Redis {
	return &Redis{redis{address: address, password: func(context.Context) (string, error) { return password, nil }}}
}

// Get is get.
func (r *Redis) Get(ctx context.Context, key string) ([]byte, bool, error) { return r.c.get(ctx, key) }

// Close is close.
func (r *Redis) Close() { r.c.close() }

// Set fills it.
func (r *Redis) Set(ctx context.Context, key, value string) error {
	if r.c.conn == nil {
		if err := r.c.connect(ctx); err != nil {
			return err
		}
	}
	_, _, err := r.c.ask(ctx, "SET", key, value)
	return err
}
