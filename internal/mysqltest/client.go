package mysqltest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// ClientArgs returns a command, program first, that runs the server's stock
// client on the database of dsn: mariadb for MariaDB, and for MySQL the mysql of
// its Docker image, which reads stdin and sees no file of this machine. Further
// arguments of the client may be appended. Without the program the test ends
// as without the server.
func (s Server) ClientArgs(t testing.TB, dsn string) []string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"mariadb"}
	if s.Name == MySQL {
		image := os.Getenv(EnvMySQLImage)
		if image == "" {
			image = DefaultMySQLImage
		}
		command = []string{"docker", "run", "--rm", "--interactive", "--network=host", "--entrypoint=mysql", image}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		Missing(t, s.Name, fmt.Errorf("no stock client: %w", err))
	}
	command = append(command, "--no-defaults", "--user="+cfg.User, "--password="+cfg.Passwd, "--database="+cfg.DBName)
	switch host, port, _ := strings.Cut(cfg.Addr, ":"); cfg.Net {
	case "unix":
		return append(command, "--socket="+cfg.Addr)
	default:
		return append(command, "--protocol=tcp", "--host="+host, "--port="+port)
	}
}
