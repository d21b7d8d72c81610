package dispatch_test

import (
	"testing"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }
