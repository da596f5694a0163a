package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Check names one rule of docs/FORMAT.md that a batch can break. The text is
// part of the interface of the program (docs/CLI.md "Checks").
type Check string

// Checks on the objects as the store holds them.
const (
	CheckObjectMissing Check = "object_missing" // one of the three objects is not there
	CheckObjectSize    Check = "object_size"    // the store holds another number of bytes
	CheckObjectCRC64   Check = "object_crc64"   // the store names another CRC64
	CheckShortBody     Check = "short_body"     // twice, fewer bytes came than the store says
	CheckRetention     Check = "retention"      // object lock ends before it must
)

// Checks on _SUCCESS and manifest.json.
const (
	CheckMarkerSyntax      Check = "marker_syntax"
	CheckMarkerBatchID     Check = "marker_batch_id"
	CheckMarkerManifestKey Check = "marker_manifest_object_key"
	CheckMarkerManifestSHA Check = "marker_manifest_sha256"
	CheckMarkerRowCount    Check = "marker_row_count"
	CheckManifestSyntax    Check = "manifest_syntax"
	CheckManifestBatchID   Check = "manifest_batch_id" // another batch than its folder says
	CheckManifestAppCode   Check = "manifest_app_code" // another app_code than its folder says
	CheckManifestDataKey   Check = "manifest_data_object_key"
	CheckManifestDate      Check = "manifest_date"         // the folder's date is not that of the first cursor
	CheckFingerprint       Check = "batch_id_fingerprint"  // batch_id is not what its scheme gives
	CheckManifestRange     Check = "manifest_range"        // a figure that no batch can have
	CheckManifestAssets    Check = "manifest_asset_totals" // totals_by_asset do not add up to the totals
	CheckFidelity          Check = "payload_fidelity"      // payload_fidelity contradicts itself
)

// CheckReceipt is the prefix of a check that holds the batch against one column
// of its receipt: "receipt_row_count" and so on.
const CheckReceipt = "receipt_"

// Checks on the data object below its lines.
const (
	CheckCompressedBytes   Check = "compressed_bytes"
	CheckGzipSHA256        Check = "gzip_sha256"
	CheckDataCRC64         Check = "data_crc64"
	CheckGzipDamaged       Check = "gzip_damaged"
	CheckGzipHeader        Check = "gzip_header"
	CheckGzipMembers       Check = "gzip_members"
	CheckGzipTrailingBytes Check = "gzip_trailing_bytes"
	CheckTooLarge          Check = "more_bytes_than_declared"
	CheckUncompressedBytes Check = "uncompressed_bytes"
	CheckNDJSONSHA256      Check = "ndjson_sha256"
)

// Checks on the rows.
const (
	CheckLine           Check = "line_syntax"
	CheckRowAppCode     Check = "row_app_code"
	CheckRowStatus      Check = "row_status"
	CheckRowOrder       Check = "row_order"
	CheckEventIDUnique  Check = "event_id_unique"
	CheckRowCount       Check = "row_count"
	CheckFirstCursor    Check = "first_cursor"
	CheckLastCursor     Check = "last_cursor"
	CheckMinCreatedAt   Check = "min_created_at_ms"
	CheckMaxCreatedAt   Check = "max_created_at_ms"
	CheckAvailableTotal Check = "available_delta_total"
	CheckFrozenTotal    Check = "frozen_delta_total"
	CheckTotalsByAsset  Check = "totals_by_asset"
	CheckRowsRoot       Check = "rows_root"
)

// Checks on the members of the ledger.
const (
	CheckMemberMissing Check = "member_missing" // a row that is no member
	CheckMemberExtra   Check = "member_extra"   // a member that is no row
	CheckMemberTime    Check = "member_updated_at_ms"
	CheckMemberReceipt Check = "member_receipt" // a member that contradicts its receipt
)

// Fault is one broken rule. Want is what the contract, the manifest or the
// receipt says, Got is what was found.
type Fault struct {
	Check  Check  `json:"check"`
	Object string `json:"object,omitempty"` // key of the object; "" for the ledger
	Line   int64  `json:"line,omitempty"`   // of the data object, from 1; 0 when it is not about a line
	Got    string `json:"got"`
	Want   string `json:"want"`
	Detail string `json:"detail,omitempty"` // what else helps to find it, never a payload
}

// String returns the fault on one line.
func (f Fault) String() string {
	s := string(f.Check)
	if f.Line > 0 {
		s += fmt.Sprintf(" at line %d", f.Line)
	}
	s += fmt.Sprintf(": expected %s, found %s", f.Want, f.Got)
	if f.Detail != "" {
		s += " (" + f.Detail + ")"
	}
	return s
}

// MaxFaultsPerCheck is how many faults of one check a Report lists; the rest is
// counted in Report.MoreFaults.
const MaxFaultsPerCheck = 20

// faults collects faults, a bounded number of each check.
type faults struct {
	list []Fault
	more map[Check]int64
	n    map[Check]int64
}

func (fs *faults) add(f Fault) { fs.addN(f, 1) }

// has reports whether a fault of a check was found.
func (fs *faults) has(c Check) bool { return fs.n[c] > 0 }

// addN counts n faults of which f is the one to show.
func (fs *faults) addN(f Fault, n int64) {
	if n <= 0 {
		return
	}
	if fs.n == nil {
		fs.n, fs.more = make(map[Check]int64), make(map[Check]int64)
	}
	shown := int64(1)
	if fs.n[f.Check] >= MaxFaultsPerCheck {
		shown = 0
	} else {
		fs.list = append(fs.list, f)
	}
	fs.n[f.Check] += shown
	if n > shown {
		fs.more[f.Check] += n - shown
	}
}

// differ adds a fault when got is not want.
func differ[T comparable](fs *faults, check Check, object string, got, want T) {
	if got != want {
		fs.add(Fault{Check: check, Object: object, Got: fmt.Sprint(got), Want: fmt.Sprint(want)})
	}
}

// merge adds what other found.
func (fs *faults) merge(other *faults) {
	for _, f := range other.list {
		fs.add(f)
	}
	for _, c := range slices.SortedFunc(maps.Keys(other.more), func(a, b Check) int { return cmp.Compare(a, b) }) {
		if fs.more == nil {
			fs.n, fs.more = make(map[Check]int64), make(map[Check]int64)
		}
		fs.more[c] += other.more[c]
	}
}
