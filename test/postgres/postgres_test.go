package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/test/postgres"
)

func TestDatabasesAreEmptyAndApart(t *testing.T) {
	ctx := t.Context()
	one, two := connect(ctx, t, postgres.Database(t)), connect(ctx, t, postgres.Database(t))
	if _, err := one.Exec(ctx, "CREATE TABLE x (id int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Exec(ctx, "SELECT * FROM x"); err == nil {
		t.Fatal("the second database sees the first one's table")
	}
}

func TestServerKeepsItsDataOverRestartAndCrash(t *testing.T) {
	ctx := t.Context()
	s := postgres.Start(t)
	dsn := s.URL("postgres")
	c := connect(ctx, t, dsn)
	if _, err := c.Exec(ctx, "CREATE TABLE x (id int); INSERT INTO x VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){s.Stop, s.Kill} {
		end()
		if c, err := pgx.Connect(ctx, dsn); err == nil {
			c.Close(ctx)
			t.Fatal("the ended server still answers")
		}
		s.Start(t)
		var id int
		if err := connect(ctx, t, dsn).QueryRow(ctx, "SELECT id FROM x").Scan(&id); err != nil || id != 7 {
			t.Fatalf("got %d, %v after a restart", id, err)
		}
	}
}

func connect(ctx context.Context, t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(ctx)) })
	return c
}
