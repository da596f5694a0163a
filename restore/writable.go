package restore

import (
	"context"
	"fmt"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// Codes of problems that tryToWrite finds.
const (
	notWritable    outbox.Code = "not_writable"
	notInRehearsal outbox.Code = "not_in_rehearsal"
)

// tryToWrite adds a problem when the server lets nobody write to the table, or not
// this account: it sends the statements of the restore without a row. A temporary
// table would not tell, since every account may write to its own, on a server that
// is read only, too.
func (a *attempt) tryToWrite(ctx context.Context) error {
	if a.opts.Scratch {
		return nil
	}
	table := mysqldb.QuoteName(a.table.Name)
	var statements []string
	if a.report.Missing > 0 {
		columns := make([]string, len(manifest.Columns))
		for i, name := range manifest.Columns {
			columns[i] = mysqldb.QuoteName(name)
		}
		list := strings.Join(columns, ", ")
		statements = append(statements, "INSERT INTO "+table+" ("+list+") SELECT "+list+" FROM "+table+" WHERE FALSE")
	}
	if a.toWrite() > a.report.Missing {
		var sets []string
		for _, name := range manifest.Columns {
			if name != "app_code" && name != eventIDColumn {
				sets = append(sets, mysqldb.QuoteName(name)+" = "+mysqldb.QuoteName(name))
			}
		}
		statements = append(statements, "UPDATE "+table+" SET "+strings.Join(sets, ", ")+" WHERE FALSE LIMIT 1") // sql_safe_updates wants a limit
	}
	for _, statement := range statements {
		_, err := a.conn.ExecContext(ctx, statement)
		switch {
		case err == nil:
		case mysqldb.Number(err) == 0, mysqldb.IsConnLost(err), mysqldb.IsRetryable(err), ctx.Err() != nil:
			return fmt.Errorf("try to write to table %s: %w", a.table.Name, err)
		default:
			verb, _, _ := strings.Cut(statement, " ")
			a.problem(ctx, Problem{Code: notWritable, Fatal: true, Detail: fmt.Sprintf("the server refuses %s to this account, even without a row: %s", verb, err)})
		}
	}
	if unseen := a.unseen(); a.opts.DryRun && len(unseen) > 0 {
		a.problem(ctx, Problem{Code: notInRehearsal, Detail: "no rehearsal tells whether " + strings.Join(unseen, " and ") +
			" will refuse rows; a run that meets such a row writes nothing"})
	}
	return nil
}

// unseen names what of the target the temporary table has not, and may refuse rows.
func (a *attempt) unseen() []string {
	var all []string
	for _, ix := range a.table.OtherKeys() {
		all = append(all, "unique key "+ix.Name+", over the rows that are there already,")
	}
	for _, name := range a.table.ForeignKeys {
		all = append(all, "foreign key "+name)
	}
	return all
}
