package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/manifest"
)

// version is set by the linker for a release; else what Go recorded is used.
var version string

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// tool is what this binary calls itself in manifests and reports.
func tool() manifest.Program { return manifest.Program{Name: programName, Version: programVersion()} }

// versionInfo is the document of version --json.
type versionInfo struct {
	Schema        string `json:"schema"`
	Version       string `json:"version"`
	Revision      string `json:"revision,omitempty"`
	Modified      bool   `json:"modified,omitempty"`
	GoVersion     string `json:"go_version"`
	Platform      string `json:"platform"`
	SchemaVersion int    `json:"schema_version"`
}

func versionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:               "version",
		Usage:              "print the version of the program and of the archive contract",
		Flags:              jsonFlags(),
		CustomHelpTemplate: codes(),
		Action: p.action(func(_ context.Context, c *cli.Context) error {
			v := readVersion()
			if c.Bool(jsonFlag) {
				return p.printJSON(v)
			}
			p.printf("%s %s\n", programName, v.Version)
			if v.Revision != "" {
				p.printf("revision   %s\n", v.Revision)
			}
			p.printf("go         %s %s\n", v.GoVersion, v.Platform)
			p.printf("contract   version %d\n", v.SchemaVersion)
			return nil
		}),
	}
}

func readVersion() versionInfo {
	v := versionInfo{
		Schema: "walletarchive.version/v1", Version: programVersion(), GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, SchemaVersion: manifest.SchemaVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
