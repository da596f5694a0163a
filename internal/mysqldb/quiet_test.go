package mysqldb

import "testing"

func TestQuiet(t *testing.T) {
	const left = "(the server's words may hold a value of a row, and are left out)"
	for _, tt := range []struct {
		number        uint16
		message, want string
	}{
		{1062, "Duplicate entry '{\"s\":\"secret\"}' for key 'uk'", "Duplicate entry for key 'uk'"},
		{1062, "Duplicate entry 'a' for key 'secret' for key 't.uk'", "Duplicate entry for key 't.uk'"},
		{1586, "Duplicate entry 'secret\n' for key 'PRIMARY'", "Duplicate entry for key 'PRIMARY'"},
		{1062, "Doppelter Eintrag 'secret' für Schlüssel 'uk'", left},
		{1062, "Duplicate entry 'secret cut of", left},
		{1366, `Incorrect string value: '\xF0\x9F' for column 'payload' at row 3`, "Incorrect string value for column 'payload' at row 3"},
		{1366, "Incorrect integer value: 'secret' for column 'x' for column `d`.`t`.`n` at row 1", "Incorrect integer value for column `d`.`t`.`n` at row 1"},
		{1292, "Truncated incorrect DOUBLE value: 'secret'", "Truncated incorrect DOUBLE value"},
		{1292, "Incorrect datetime value: 'secret' for column 'c' at row 1", "Incorrect datetime value for column 'c' at row 1"},
		{1411, "Incorrect string value: 'secret' for function str_to_date", "Incorrect string value for function str_to_date"},
		{1300, `Invalid utf8mb4 character string: 'secret'`, "Invalid utf8mb4 character string"},
		{1526, "Table has no partition for value secret", "Table has no partition for value"},
		{1690, "BIGINT value is out of range in '(1234 + 1)'", "BIGINT value is out of range"},
		{3854, `Cannot convert string 'secret' from utf8mb4 to latin1`, "Cannot convert string from utf8mb4 to latin1"},
		{1918, "Encountered illegal value 'secret' when converting to INT", "Encountered illegal value when converting to INT"},
		{1406, "Data too long for column 'payload' at row 1", "Data too long for column 'payload' at row 1"},
	} {
		if got := quiet(tt.number, tt.message); got != tt.want {
			t.Errorf("quiet(%d, %q) = %q, want %q", tt.number, tt.message, got, tt.want)
		}
	}
}
