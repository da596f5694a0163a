package throttle

import (
	"os"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }
