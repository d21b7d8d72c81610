package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const ran = `{"Action":"start","Package":"github.com/outboxctl/outboxctl/a"}
{"Action":"start","Package":"github.com/outboxctl/outboxctl/b"}
{"Action":"output","Package":"github.com/outboxctl/outboxctl/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"github.com/outboxctl/outboxctl/a","Test":"TestGood","Elapsed":7}
{"Action":"output","Package":"github.com/outboxctl/outboxctl/a","Test":"TestLeft","Output":"    a_test.go:7: no C compiler here\n"}
{"Action":"output","Package":"github.com/outboxctl/outboxctl/a","Test":"TestLeft","Output":"--- SKIP: TestLeft (0.00s)\n"}
{"Action":"skip","Package":"github.com/outboxctl/outboxctl/a","Test":"TestLeft","Elapsed":0}
`
	tests := map[string]struct {
		in   string
		want string
		ok   bool
	}{
		"passed": {
			in: ran + `{"Action":"pass","Package":"github.com/outboxctl/outboxctl/a","Elapsed":7.5}
{"Action":"output","Package":"github.com/outboxctl/outboxctl/b","Output":"?   \tgithub.com/outboxctl/outboxctl/b\t[no test files]\n"}
{"Action":"skip","Package":"github.com/outboxctl/outboxctl/b","Elapsed":0}
`,
			want: `ok   a                               2 tests    7.5s, 1 skipped   still running: b
skipped: no C compiler here (a TestLeft)
slow: a TestGood, 7s
1 packages, 1 tests passed, 0 failed, 1 skipped in 0s
`,
			ok: true,
		},
		"a test failed": {
			in: ran + `{"Action":"output","Package":"github.com/outboxctl/outboxctl/a","Test":"TestBad","Output":"    a_test.go:9: not equal\n"}
{"Action":"fail","Package":"github.com/outboxctl/outboxctl/a","Test":"TestBad","Elapsed":0}
{"Action":"fail","Package":"github.com/outboxctl/outboxctl/a","Elapsed":7.5}
{"Action":"skip","Package":"github.com/outboxctl/outboxctl/b","Elapsed":0}
`,
			want: `    a_test.go:9: not equal
FAIL a                               3 tests    7.5s, 1 failed, 1 skipped   still running: b
skipped: no C compiler here (a TestLeft)
slow: a TestGood, 7s
1 packages, 1 tests passed, 1 failed, 1 skipped in 0s
FAILED: a TestBad
`,
		},
		"a process died": {
			in: ran + `{"Action":"output","Package":"github.com/outboxctl/outboxctl/a","Test":"TestDies","Output":"panic: no\n"}
{"Action":"fail","Package":"github.com/outboxctl/outboxctl/a","Elapsed":1}
`,
			want: `panic: no
FAIL a                               2 tests    1.0s, 1 skipped   still running: b
skipped: no C compiler here (a TestLeft)
slow: a TestGood, 7s
1 packages, 1 tests passed, 0 failed, 1 skipped in 0s
FAILED: a
FAILED: b did not finish
`,
		},
		"a build failed": {
			in: `{"Action":"build-output","ImportPath":"github.com/outboxctl/outboxctl/a [x.test]","Output":"a.go:1: undefined: x\n"}
{"Action":"build-fail","ImportPath":"github.com/outboxctl/outboxctl/a [x.test]"}
`,
			want: `a.go:1: undefined: x
0 packages, 0 tests passed, 0 failed, 0 skipped in 0s
FAILED: build of a
`,
		},
		"nothing ran": {
			in:   "go: no such tool\n",
			want: "go: no such tool\n0 packages, 0 tests passed, 0 failed, 0 skipped in 0s\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			ok := report(strings.NewReader(tt.in), &out, func() time.Time { return time.Time{} })
			require.Equal(t, tt.want, out.String())
			require.Equal(t, tt.ok, ok)
		})
	}
}
