package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
)

const (
	cell, row, margin = 8.4, 20, 18
	windowBar         = 30
)

// styles are the classes of the attributes and colours that our output uses.
var styles = map[string]string{ //nolint:gochecknoglobals // a table
	"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c",
}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// drawScreen draws text with its colours as a window.
func drawScreen(text string) []byte {
	lines := strings.Split(text, "\n")
	height := windowBar + len(lines)*row + margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="outboxctl on a terminal">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dee6; white-space: pre }
.b { font-weight: 700; fill: #fff } .d { fill: #8b97a3 } .r { fill: #ff7b72 } .g { fill: #56d364 } .y { fill: #e3b341 } .c { fill: #76d9e6 }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#11161c"/>
<circle cx="18" cy="16" r="5" fill="#ff7b72"/><circle cx="36" cy="16" r="5" fill="#e3b341"/><circle cx="54" cy="16" r="5" fill="#56d364"/>
`, int(columns*cell)+2*margin, height)
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin,
			windowBar+(i+1)*row, spans(line))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// spans turns a line's escape sequences into elements.
func spans(line string) string {
	var b strings.Builder
	class := ""
	write := func(text string) {
		if text == "" {
			return
		}
		if class == "" {
			b.WriteString(html.EscapeString(text))
			return
		}
		fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
	}
	for {
		at := escape.FindStringSubmatchIndex(line)
		if at == nil {
			write(line)
			return b.String()
		}
		write(line[:at[0]])
		class = ""
		for code := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			if style, known := styles[code]; known {
				class = style
			}
		}
		line = line[at[1]:]
	}
}
