package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/manifest"
)

// Names of the flags that several commands share. A flag has one name and one
// help text wherever it appears.
const (
	storeFlag     = "store"
	appFlag       = "app"
	receiptFlag   = "receipt"
	jsonFlag      = "json"
	logLevelFlag  = "log-level"
	logFormatFlag = "log-format"
	progressFlag  = "progress"
	sourceDSNFlag = "source-dsn"
	ledgerDSNFlag = "ledger-dsn"
	targetDSNFlag = "target-dsn"
)

func appFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: appFlag, Usage: "app_code of the events: `APP`"}}
}

func jsonFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: jsonFlag, Usage: "print the JSON document of docs/CLI.md", DisableDefaultText: true}}
}

// dsnFlags are the flag of a DSN and that of a file that holds it. what names
// the server, "the ledger" for example.
func dsnFlags(name, what string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name:  name,
			Usage: fmt.Sprintf("`DSN` of %s, user@tcp(host:3306)/database; with a password better in $%s", what, dsnVariable(name)),
		},
		&cli.StringFlag{Name: name + "-file", Usage: fmt.Sprintf("`FILE` that holds the DSN of %s; or $%s_FILE", what, dsnVariable(name))},
	}
}

// logFlags are for every command that contacts something.
func logFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: logLevelFlag, Value: "info", Usage: "least `LEVEL` of the log on stderr: debug, info, warn or error"},
		&cli.StringFlag{Name: logFormatFlag, Value: "text", Usage: "`FORMAT` of the log on stderr: text or json"},
	}
}

// progressFlags are for commands that may run long.
func progressFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{
		Name: progressFlag, Value: "auto",
		Usage: "how to show progress on stderr: `HOW` is auto, off, lines (a log record a minute, in restore every 10s) or bars",
	}}
}

// flags puts groups of flags together.
func flags(groups ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// app returns --app, "" when it is not given.
func app(c *cli.Context) (string, error) {
	name := c.String(appFlag)
	if name == "" {
		return "", nil
	}
	if err := manifest.CheckAppCode(name); err != nil {
		return "", usagef("--%s: %v", appFlag, err)
	}
	return name, nil
}

// needApp returns --app, which the command cannot do without.
func needApp(c *cli.Context) (string, error) {
	name, err := app(c)
	if err == nil && name == "" {
		err = usagef("--%s is missing", appFlag)
	}
	return name, err
}
