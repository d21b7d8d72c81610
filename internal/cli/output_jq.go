package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// jqQuery is a jq expression, compiled.
type jqQuery struct {
	text string
	code *gojq.Code
}

func (o *Output) jqText() string {
	if o.jq == nil {
		return ""
	}
	return o.jq.text
}

// setJQ reads --jq; what is wrong with the expression is told before anything is asked of a server.
func (o *Output) setJQ(text string) error {
	parsed, err := gojq.Parse(text)
	if err != nil {
		return fault.Hint(errors.New(jqProblem(text, err)),
			"a dot, ., is all of the output; jq's manual explains the rest")
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return errors.New(jqProblem(text, err))
	}
	o.jq = &jqQuery{text, code}
	return nil
}

// jqProblem explains in our words what is wrong with an expression.
func jqProblem(text string, err error) string {
	syntax, isSyntax := errors.AsType[*gojq.ParseError](err)
	kind, name, unknown := strings.Cut(err.Error(), " not defined: ")
	switch {
	case strings.TrimSpace(text) == "":
		return "the expression is empty"
	case isSyntax && syntax.Token != "":
		return fmt.Sprintf("%q is not a jq expression: %q is not expected there", safetext.Cut(text, 60),
			safetext.Cut(syntax.Token, 60))
	case isSyntax:
		return fmt.Sprintf("%q is not a jq expression: it ends too early", safetext.Cut(text, 60))
	case unknown:
		return fmt.Sprintf("jq has no %s %s", kind, safetext.Cut(name, 60))
	default:
		return err.Error()
	}
}

// write prints what the expression makes of a value: texts as they are, everything else as JSON,
// one on a line.
func (q *jqQuery) write(w io.Writer, value any) error {
	doc, err := marshalJSON(value, "")
	if err != nil {
		return err
	}
	var input any
	if err := json.Unmarshal(doc, &input); err != nil {
		return fmt.Errorf("read own output: %w", err)
	}
	results := q.code.Run(input)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		switch result := result.(type) {
		case error:
			// Not wrapped: it has an exit code of jq's own.
			return fault.Hint(fault.Usagef("--jq: the expression fails on this output: %v", result),
				"-o json shows what it is given")
		case string:
			_, err = fmt.Fprintln(w, safetext.Block(result))
		default:
			err = EncodeJSON(w, result, "")
			if number, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
				return fault.Usagef("--jq: the result has a number that JSON cannot write, %s", number.Str)
			}
		}
		if err != nil {
			return err
		}
	}
}
