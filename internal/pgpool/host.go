package pgpool

import (
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Host is where a server is reached, for a person; the folder of a socket stands for this machine.
func Host(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") {
		return "localhost"
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}
