// Command deploycheck reads a file for a container tool with that tool's own parser and prints what it understood, as
// JSON. The tools themselves need daemons that a test cannot start.
//
//	deploycheck dockerfile FILE   buildkit's parser and instructions
//	deploycheck compose FILE      compose's loader, with its schema
//	deploycheck hcl FILE          HCL's parser: the file's syntax; what its blocks mean is Nomad's
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: deploycheck dockerfile|compose|hcl FILE"))
	}
	read := map[string]func(string) (any, error){"dockerfile": dockerfile, "compose": compose, "hcl": parseHCL}[os.Args[1]]
	if read == nil {
		fail(fmt.Errorf("unknown kind %q", os.Args[1]))
	}
	understood, err := read(os.Args[2])
	if err != nil {
		fail(err)
	}
	out, err := json.MarshalIndent(understood, "", "  ")
	if err != nil {
		fail(err)
	}
	fmt.Println(string(out))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type stage struct {
	From     string     `json:"from"`
	Name     string     `json:"name"`
	Commands []commands `json:"commands"`
}

type commands struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func dockerfile(path string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var warnings []string
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	built, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, err
	}
	var stages []stage
	for _, one := range built {
		told := stage{From: one.BaseName, Name: one.Name}
		for _, command := range one.Commands {
			told.Commands = append(told.Commands, commands{Name: command.Name(), Text: fmt.Sprint(command)})
		}
		stages = append(stages, told)
	}
	for _, warning := range parsed.Warnings {
		warnings = append(warnings, warning.Short)
	}
	return map[string]any{"stages": stages, "warnings": warnings}, nil
}

func compose(path string) (any, error) {
	options, err := cli.NewProjectOptions([]string{path})
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

type block struct {
	Type       string            `json:"type"`
	Labels     []string          `json:"labels"`
	Attributes map[string]string `json:"attributes"`
	Blocks     []block           `json:"blocks"`
}

func parseHCL(path string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, problems := hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	if problems.HasErrors() {
		return nil, problems
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, fmt.Errorf("%s is not in HCL's own syntax", path)
	}
	return told(body, text), nil
}

func told(body *hclsyntax.Body, text []byte) block {
	this := block{Attributes: map[string]string{}}
	for name, attribute := range body.Attributes {
		this.Attributes[name] = string(attribute.Expr.Range().SliceBytes(text))
	}
	for _, inner := range body.Blocks {
		one := told(inner.Body, text)
		one.Type, one.Labels = inner.Type, inner.Labels
		this.Blocks = append(this.Blocks, one)
	}
	return this
}
