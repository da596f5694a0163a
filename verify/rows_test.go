package verify

import (
	"encoding/json"
	"testing"
)

// TestComparesByBytes: only in a charset whose bytes sort like UTF-8 does a
// _bin collation order event_ids like the bytes of their lines. In latin1 the
// euro sign is 0x80 and stands before é, which is 0xe9; in UTF-8 it is after it.
func TestComparesByBytes(t *testing.T) {
	for collation, want := range map[string]bool{
		"binary": true, "ascii_bin": true, "ascii_nopad_bin": true,
		"utf8_bin": true, "utf8mb3_bin": true, "utf8mb4_bin": true, "utf8mb4_0900_bin": true, "utf8mb4_nopad_bin": true,
		"latin1_bin": false, "cp1251_bin": false, "gbk_bin": false, "utf16_bin": false, "utf16le_bin": false, "ucs2_bin": false,
		"utf8mb4_0900_ai_ci": false, "utf8mb4_general_ci": false, "_bin": false, "": false,
	} {
		if got := comparesByBytes(collation); got != want {
			t.Errorf("comparesByBytes(%q) = %t, want %t", collation, got, want)
		}
	}
}

// TestVersionsInJSON: the versions are part of the document of export.
func TestVersionsInJSON(t *testing.T) {
	got, err := json.Marshal(Versions{Data: "1", Manifest: "2", Success: "3"})
	if want := `{"data":"1","manifest":"2","success":"3"}`; err != nil || string(got) != want {
		t.Errorf("Versions in JSON: %s, %v, want %s", got, err, want)
	}
}
