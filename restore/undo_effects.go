package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// ErrSideEffects is returned by [Undo] when triggers or foreign keys would change
// more than the rows that are taken back, and nobody has allowed it. Nothing was
// done.
var ErrSideEffects = errors.New("an undo would change more than the restored rows")

// Kinds of a [SideEffect].
const (
	EffectTrigger = "trigger" // of the table
	EffectCascade = "cascade" // a foreign key of another table
	EffectHidden  = "hidden"  // there may be triggers that the account cannot see; it refuses nothing
)

// SideEffect is what the target would do beside an undo.
type SideEffect struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// sideEffects lists what runs when rows of the table are deleted and updated.
func sideEffects(ctx context.Context, db *sql.DB, table *outbox.Table, deletes, updates bool) ([]SideEffect, error) {
	all := []SideEffect{}
	if !deletes && !updates {
		return all, nil
	}
	for _, tr := range table.Triggers {
		if tr.Event == "DELETE" && deletes || tr.Event == "UPDATE" && updates {
			all = append(all, SideEffect{EffectTrigger, tr.Name, fmt.Sprintf("runs %s %s", strings.ToLower(tr.Timing), tr.Event)})
		}
	}
	if !table.TriggersVisible {
		all = append(all, SideEffect{EffectHidden, "", "the account has no TRIGGER privilege and may not see the triggers of this table"})
	}
	rows, err := db.QueryContext(ctx, `SELECT CONCAT(CONSTRAINT_SCHEMA, '.', TABLE_NAME), CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE,
COALESCE(UNIQUE_CONSTRAINT_NAME, '') FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE UNIQUE_CONSTRAINT_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME = ? ORDER BY 1, 2`, table.Name)
	if err != nil {
		return nil, fmt.Errorf("look for foreign keys to table %s: %w", table.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var child, name, onDelete, onUpdate, key string
		if err := rows.Scan(&child, &name, &onDelete, &onUpdate, &key); err != nil {
			return nil, err
		}
		if deletes && reaches(onDelete) {
			all = append(all, SideEffect{EffectCascade, name, fmt.Sprintf("table %s: ON DELETE %s", child, onDelete)})
		}
		// An undo never changes the primary key of a row.
		if updates && key != "PRIMARY" && reaches(onUpdate) {
			all = append(all, SideEffect{EffectCascade, name, fmt.Sprintf("table %s: ON UPDATE %s", child, onUpdate)})
		}
	}
	return all, rows.Err()
}

// otherColumns returns the columns that no archive has and that do not follow from
// others, never nil.
func otherColumns(table *outbox.Table) []string {
	names := []string{}
	for _, c := range table.Columns {
		known := slices.ContainsFunc(manifest.Columns[:], func(name string) bool { return strings.EqualFold(name, c.Name) })
		if !known && !c.Generated {
			names = append(names, c.Name)
		}
	}
	return names
}

// reaches reports whether a rule of a foreign key changes rows of the child.
func reaches(rule string) bool { return rule != "RESTRICT" && rule != "NO ACTION" }

// refusal returns an [ErrSideEffects] that names what is not allowed, nil when all
// is.
func (o *UndoOptions) refusal(effects []SideEffect) error {
	var names []string
	for _, e := range effects {
		if e.Kind == EffectTrigger && !o.AllowTriggers || e.Kind == EffectCascade && !o.AllowCascades {
			names = append(names, fmt.Sprintf("%s %s (%s)", e.Kind, e.Name, e.Detail))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrSideEffects, strings.Join(names, "; "))
}
