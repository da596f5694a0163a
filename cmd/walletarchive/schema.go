package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// defaultOutboxTable is the name of the table that events are archived from.
const defaultOutboxTable = "wallet_outbox"

func schemaCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "print the SQL that creates the tables of the ledger",
		Flags: []cli.Flag{&cli.BoolFlag{
			Name: "outbox", Usage: "also a " + defaultOutboxTable + " to try things on", DisableDefaultText: true,
		}},
		CustomHelpTemplate: codes(),
		Action: p.action(func(_ context.Context, c *cli.Context) error {
			p.printf("-- receipts and members: once a ledger\n%s", ledger.Schema())
			if c.Bool("outbox") {
				p.printf("\n-- the source, only where there is none yet\n%s;\n", strings.TrimRight(outbox.Schema(defaultOutboxTable, ""), "; \n"))
			}
			return nil
		}),
	}
}
