package pubsub_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Started by an import, for ever, by a library under the Google client.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
