package sqlledger

import (
	"context"
	"fmt"

	"github.com/droverhq/drover/internal/fault"
)

// inspect makes sure that the database is one that this program can read as it is,
// where setUp would make it so. It writes nothing.
func (l *Ledger) inspect(ctx context.Context) error {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	present, version := int64(0), int64(0)
	err := l.engine.read(ctx, l.dialect.tableExists, []any{"head"}, func(scan scanner) error { return scan(&present) })
	if err == nil && present == 0 {
		err = fault.New(fault.NotFound, "there is no ledger in this database").Because("no-ledger")
	}
	if err != nil {
		return err
	}
	if err := l.engine.read(ctx, "SELECT schema_version FROM head", nil, func(scan scanner) error { return scan(&version) }); err != nil {
		return err
	}
	if err := newerSchema(version); err != nil {
		return err
	}
	if version < int64(len(migrations)) {
		return older("has schema version %d, and this program reads version %d", version, len(migrations))
	}
	if l.vault != nil {
		var stored []byte
		if err := l.engine.read(ctx, "SELECT key_check FROM head", nil, func(scan scanner) error { return scan(&stored) }); err != nil {
			return err
		}
		if len(stored) > 0 && l.vault.Check(stored) != nil {
			return wrongKey()
		}
	}
	declared := map[[2]string]bool{}
	err = l.engine.read(ctx, "SELECT kind, what FROM declared", nil, func(scan scanner) error {
		var of [2]string
		err := scan(&of[0], &of[1])
		declared[of] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range l.config.Kinds {
		s := l.stores[k.Name]
		s.indexes(l.dialect) // for their names
		needs := []string{"table"}
		for _, c := range s.table.columns[colFields:s.first] {
			needs = append(needs, c.name)
		}
		for _, f := range k.Fields {
			needs = append(needs, "field "+f.Name)
		}
		for _, what := range needs {
			if !declared[[2]string{k.Name, what}] {
				return older("has no %s of kind %s", what, k.Name)
			}
		}
	}
	return nil
}

// older is a database that no server of this version has prepared yet.
func older(format string, args ...any) error {
	return fault.New(fault.Conflict, "the database is of an older program: it %s; it is not changed here, so use the program that its server has",
		fmt.Sprintf(format, args...)).Because("older-schema")
}
