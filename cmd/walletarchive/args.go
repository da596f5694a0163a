package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange returns the command line with the flags of its command before the
// arguments, each as --name=value, and the arguments after "--". The flag
// parser stops at the first argument and would drop later flags without a word.
//
// It refuses what the parser would take in silence: an unknown or empty flag, a
// flag given twice, and a flag whose value looks like another flag because its
// own was forgotten. "help COMMAND" becomes "COMMAND --help".
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usagef("no program name")
	}
	out, rest := args[:1:1], args[1:]
	if len(rest) > 0 && rest[0] == "help" {
		rest = append(slices.Clone(rest[1:]), "--help")
	}
	commands := app.Commands
	for len(rest) > 0 {
		word := rest[0]
		if strings.HasPrefix(word, "-") {
			if !slices.Contains([]string{"-h", "--help", "-v", "--version"}, word) {
				return nil, usagef("flag %s before a command; flags come after it", flagWord(word))
			}
			out, rest = append(out, word), rest[1:]
			continue
		}
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if i < 0 {
			break // the Action says that there is no such command
		}
		c := commands[i]
		out, rest = append(out, word), rest[1:]
		// A command with flags does something itself, unless a subcommand is named.
		own := len(c.Flags) > 0 && (len(rest) == 0 || !slices.ContainsFunc(c.Subcommands, func(s *cli.Command) bool { return s.HasName(rest[0]) }))
		if len(c.Subcommands) == 0 || own {
			arranged, err := arrangeFlags(c.Flags, rest)
			return append(out, arranged...), err
		}
		commands = c.Subcommands
	}
	return append(out, rest...), nil
}

// arrangeFlags is arrange for what follows the name of a command.
func arrangeFlags(flags []cli.Flag, words []string) ([]string, error) {
	var front, args []string
	seen := map[string]bool{}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "--" {
			args = append(args, words...)
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			args = append(args, word)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
		if name == "help" || name == "h" {
			// With arguments, the parser would look for a topic of that name.
			return []string{"--help"}, nil
		}
		f := findFlag(flags, name)
		if f == nil {
			return nil, usagef("there is no flag %s", flagWord(word))
		}
		if name = f.Names()[0]; seen[name] && !isList(f) {
			return nil, usagef("flag --%s is given twice", name)
		}
		seen[name] = true
		if !takesValue(f) {
			if !hasValue {
				value = "true"
			}
			front = append(front, "--"+name+"="+value)
			continue
		}
		if !hasValue {
			if len(words) == 0 || looksLikeFlag(words[0]) {
				return nil, usagef("flag --%s needs a value (one that starts with a dash is given as --%s=VALUE)", name, name)
			}
			value, words = words[0], words[1:]
		}
		if value == "" {
			return nil, usagef("flag --%s is empty", name)
		}
		front = append(front, "--"+name+"="+value)
	}
	if len(args) > 0 {
		front = append(append(front, "--"), args...)
	}
	return front, nil
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return !ok || d.TakesValue()
}

func isList(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationSliceFlag)
	return ok && d.IsSliceFlag()
}

// looksLikeFlag reports whether word would be taken for a flag. Negative
// numbers and a lone dash are values.
func looksLikeFlag(word string) bool {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil
}

// flagWord returns the name of a flag as it was written, without its value,
// which may be a secret.
func flagWord(word string) string {
	name, _, _ := strings.Cut(word, "=")
	return strconv.Quote(name)
}
