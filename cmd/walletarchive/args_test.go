package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// testApp has the shapes of command that the real one has.
func testApp() *cli.App {
	leaf := []cli.Flag{
		&cli.StringFlag{Name: "store"},
		&cli.StringFlag{Name: "source-dsn"},
		&cli.IntFlag{Name: "latest", Aliases: []string{"n"}},
		&cli.BoolFlag{Name: "json"},
		&cli.BoolFlag{Name: "dry-run"},
		&cli.StringSliceFlag{Name: "event-id"},
	}
	return &cli.App{Commands: []*cli.Command{
		{Name: "verify", Flags: leaf},
		{Name: "receipts", Subcommands: []*cli.Command{{Name: "show", Flags: leaf}}},
	}}
}

func TestArrange(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "wa", "wa"},
		{"flags first", "wa verify --store s ID", "wa verify --store=s -- ID"},
		{"flags last", "wa verify ID --store s --json", "wa verify --store=s --json=true -- ID"},
		{"flags between", "wa verify A --json B --store=s C", "wa verify --json=true --store=s -- A B C"},
		{"a value with an equals sign", "wa verify --store=a=b", "wa verify --store=a=b"},
		{"one dash", "wa verify -store s ID", "wa verify --store=s -- ID"},
		{"an alias", "wa verify ID -n 3", "wa verify --latest=3 -- ID"},
		{"a negative number", "wa verify --latest -3", "wa verify --latest=-3"},
		{"a dash as a value", "wa verify --store -", "wa verify --store=-"},
		{"a value that starts with a dash", "wa verify --store=--json", "wa verify --store=--json"},
		{"a bool takes no word", "wa verify --json false", "wa verify --json=true -- false"},
		{"a bool with a value", "wa verify ID --json=false", "wa verify --json=false -- ID"},
		{"two dashes end flags", "wa verify --json -- --store ID", "wa verify --json=true -- --store ID"},
		{"two dashes after an argument", "wa verify ID -- --json", "wa verify -- ID --json"},
		{"a dash as an argument", "wa verify - --json", "wa verify --json=true -- -"},
		{"a list", "wa verify --event-id a --event-id b", "wa verify --event-id=a --event-id=b"},
		{"a command in a group", "wa receipts show ID --json", "wa receipts show --json=true -- ID"},
		{"a group alone", "wa receipts", "wa receipts"},
		{"an unknown command in a group", "wa receipts shwo ID --json", "wa receipts shwo ID --json"},
		{"an unknown command", "wa verfiy ID", "wa verfiy ID"},
		{"help", "wa help", "wa --help"},
		{"help for a command", "wa help receipts show", "wa receipts show --help"},
		{"help after arguments", "wa verify ID --store s -h", "wa verify --help"},
		{"version", "wa --version", "wa --version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := strings.Fields(tt.in)
			before := strings.Join(in, " ")
			got, err := arrange(testApp(), in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("arrange (-want +got):\n%s", diff)
			}
			if strings.Join(in, " ") != before {
				t.Errorf("arrange changed its argument to %q", in)
			}
		})
	}
}

func TestArrangeRefuses(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want string
	}{
		{"no program", nil, "no program name"},
		{"an unknown flag", []string{"wa", "verify", "--stroe", "s"}, `no flag "--stroe"`},
		{"an unknown flag after an argument", []string{"wa", "verify", "ID", "--stroe=s"}, `no flag "--stroe"`},
		{"three dashes", []string{"wa", "verify", "---store=s"}, `no flag "---store"`},
		{"no name", []string{"wa", "verify", "--=s"}, `no flag "--"`},
		{"a flag twice", []string{"wa", "verify", "--store", "a", "--store=b"}, "--store is given twice"},
		{"a flag and its alias", []string{"wa", "verify", "-n", "1", "--latest=2"}, "--latest is given twice"},
		{"a bool twice", []string{"wa", "verify", "--json", "--json=false"}, "--json is given twice"},
		{"no value at the end", []string{"wa", "verify", "--store"}, "--store needs a value"},
		{"a flag where the value was forgotten", []string{"wa", "verify", "--store", "--dry-run"}, "--store needs a value"},
		{"two dashes where the value was forgotten", []string{"wa", "verify", "--store", "--", "ID"}, "--store needs a value"},
		{"an empty value", []string{"wa", "verify", "--store", ""}, "--store is empty"},
		{"an empty value after an equals sign", []string{"wa", "verify", "--store="}, "--store is empty"},
		{"a flag before the command", []string{"wa", "--json", "verify"}, `"--json" before a command`},
		{"two dashes before the command", []string{"wa", "--", "verify"}, `"--" before a command`},
		{"a flag inside a group", []string{"wa", "receipts", "--json", "show"}, `"--json" before a command`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := arrange(testApp(), tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("arrange(%q) = %q, %v, want an error with %q", tt.in, got, err, tt.want)
			}
			if exitCode(t.Context(), err) != exitUsage {
				t.Errorf("error %v is no usage error", err)
			}
		})
	}
}

func TestArrangeQuotesNoSecret(t *testing.T) {
	const secret = "s3cr:et@x"
	for _, in := range [][]string{
		{"wa", "verify", "--source-dns=root:" + secret + "@tcp(h)/d"},
		{"wa", "verify", "---source-dsn=root:" + secret + "@tcp(h)/d"},
		{"wa", "verify", "--root:" + secret + "@tcp(h)/d"},
		{"wa", "--source-dsn=root:" + secret + "@tcp(h)/d", "verify"},
		{"wa", "verify", "--source-dsn", "root:" + secret + "@tcp(h)/d", "--source-dsn", "x"},
	} {
		_, err := arrange(testApp(), in)
		if err == nil {
			t.Fatalf("arrange(%q) gave no error", in)
		}
		if strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "et@") {
			t.Errorf("error quotes the secret: %v", err)
		}
	}
}
