package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// pass is what one read of the data object found.
type pass struct {
	faults  faults
	notes   []string
	object  manifest.Object
	whole   bool // object is known
	corrupt *objstore.CorruptError
	rows    int64
	members int64
}

// data reads the data object and judges it. When what came back is not what
// the manifest declares, it is read once more before that becomes a fault.
func (r *run) data(ctx context.Context, m *manifest.Manifest) error {
	key := r.target.Location.DataKey()
	first, err := r.readData(ctx, m)
	if err != nil {
		return err
	}
	last := first
	if first != nil && first.suspect(m) {
		if last, err = r.readData(ctx, m); err != nil {
			return err
		}
		switch {
		case last == nil:
		case !last.suspect(m):
			r.note(key, "a first read came back with other bytes (gzip SHA-256 %s), a second one as declared", first.object.GzipSHA256)
		case first.object != last.object:
			return fmt.Errorf("read %s: SHA-256 %s of %d bytes, then %s of %d bytes: %w", key,
				first.object.GzipSHA256, first.object.CompressedBytes, last.object.GzipSHA256, last.object.CompressedBytes, ErrUnstable)
		default:
			r.note(key, "two reads gave the same bytes (gzip SHA-256 %s)", last.object.GzipSHA256)
			if c := last.corrupt; c != nil {
				last.faults.add(corruptFault(c, first.corrupt))
			}
		}
	}
	if last == nil {
		return nil
	}
	r.faults.merge(&last.faults)
	for _, n := range last.notes {
		r.note(key, "%s", n)
	}
	r.report.Rows, r.report.Members = last.rows, last.members
	return nil
}

// suspect reports whether the bytes are not those that the manifest declares.
func (p *pass) suspect(m *manifest.Manifest) bool {
	return p.corrupt != nil || !p.whole || p.object.GzipSHA256 != m.GzipSHA256
}

// readData reads the data object once. It returns nil without an error when
// the object is missing, which is a fault already.
func (r *run) readData(ctx context.Context, m *manifest.Manifest) (*pass, error) {
	key := r.target.Location.DataKey()
	body, info, err := r.src.Get(ctx, key, r.target.Versions.Data)
	if errors.Is(err, objstore.ErrNotExist) {
		r.missing(key, err)
		return nil, nil
	}
	if err != nil {
		return nil, err // a store names operation and key
	}
	defer body.Close()
	if n := len(r.report.Objects); n == 0 || r.report.Objects[n-1].Key != key {
		r.object(info)
	}
	p := &pass{}
	differ(&p.faults, CheckObjectSize, key, info.Size, m.CompressedBytes)
	if info.CRC64 != nil {
		differ(&p.faults, CheckObjectCRC64, key, *info.CRC64, m.DataCRC64)
	}
	src := &source{r: body, ctx: ctx}
	var in io.Reader = src
	if r.spool != nil {
		if err := rewind(r.spool); err != nil {
			return nil, err
		}
		in = io.TeeReader(src, r.spool)
	}
	// A manifest that declares nothing, which is a fault already, must not lift
	// the bound.
	opts := manifest.ReaderOptions{
		MaxLineBytes: r.opts.MaxLineBytes, MaxCompressedBytes: max(m.CompressedBytes, 1), MaxUncompressedBytes: max(m.UncompressedBytes, 1),
	}
	var figures manifest.Figures
	switch r.opts.Level {
	case LevelHead:
		panic("readData at level head")
	case LevelContent:
		figures, p.object, p.whole, err = manifest.SumObject(ctx, in, opts)
	case LevelRows:
		figures, err = r.readRows(ctx, in, opts, m, p)
	}
	r.report.Bytes += src.n
	if src.crcMissing {
		p.notes = append(p.notes, "the store names no CRC64 for this object; its SHA-256 was checked instead")
	}
	if err == nil {
		p.checkObject(key, m)
		differ(&p.faults, CheckUncompressedBytes, key, figures.UncompressedBytes, m.UncompressedBytes)
		differ(&p.faults, CheckNDJSONSHA256, key, figures.NDJSONSHA256, m.NDJSONSHA256)
		return p, nil
	}
	if errors.As(err, &p.corrupt) {
		return p, nil
	}
	if f, ok := contentFault(err, key, m); ok {
		if f.Check == CheckGzipDamaged {
			p.dropLines()
		}
		p.faults.add(f)
		if p.whole {
			p.checkObject(key, m)
		}
		return p, nil
	}
	return nil, err
}

// dropLines takes back what was said of single lines, since a damaged gzip
// stream unpacks to lines that were never written.
func (p *pass) dropLines() {
	var kept faults
	first := int64(0)
	for _, f := range p.faults.list {
		switch {
		case f.Line == 0:
			kept.add(f)
		case first == 0 || f.Line < first:
			first = f.Line
		}
	}
	p.faults = kept
	if first > 0 {
		p.notes = append(p.notes, fmt.Sprintf("the damage shows from line %d on", first))
	}
}

func rewind(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind spool: %w", err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("empty spool: %w", err)
	}
	return nil
}

func (p *pass) checkObject(key string, m *manifest.Manifest) {
	differ(&p.faults, CheckCompressedBytes, key, p.object.CompressedBytes, m.CompressedBytes)
	differ(&p.faults, CheckGzipSHA256, key, p.object.GzipSHA256, m.GzipSHA256)
	differ(&p.faults, CheckDataCRC64, key, p.object.DataCRC64, m.DataCRC64)
}

// contentFault turns an error about what the data object holds into a fault.
func contentFault(err error, key string, m *manifest.Manifest) (Fault, bool) {
	f := Fault{Object: key, Got: err.Error()}
	switch {
	case errors.Is(err, manifest.ErrTooManyAssets):
		f.Check, f.Want = CheckTotalsByAsset, fmt.Sprintf("at most %d asset types", manifest.MaxAssetTypes)
	case errors.Is(err, manifest.ErrTooLarge):
		f.Check, f.Want = CheckTooLarge, fmt.Sprintf("%d compressed, %d uncompressed bytes", m.CompressedBytes, m.UncompressedBytes)
	case errors.Is(err, manifest.ErrSecondMember):
		f.Check, f.Want = CheckGzipMembers, "one gzip member"
	case errors.Is(err, manifest.ErrTrailingBytes):
		f.Check, f.Want = CheckGzipTrailingBytes, "nothing after the gzip trailer"
	case errors.Is(err, manifest.ErrGzipHeader):
		f.Check, f.Want = CheckGzipHeader, "a gzip header without name, comment, extra field and time"
	case errors.Is(err, manifest.ErrGzip):
		f.Check, f.Want = CheckGzipDamaged, "a whole gzip stream"
	default:
		return Fault{}, false
	}
	return f, true
}

// source passes the body on, stops when ctx is done, and takes a missing
// checksum for the end that it is: the content is hashed here in any case.
type source struct {
	r          io.Reader
	ctx        context.Context
	n          int64
	crcMissing bool
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	var corrupt *objstore.CorruptError
	if errors.As(err, &corrupt) && corrupt.Kind == objstore.CRCMissing {
		s.crcMissing = true
		err = io.EOF
	}
	return n, err
}

// sumAssets adds up totals_by_asset in the form of totalsOf.
func sumAssets(by map[string]manifest.AssetTotals) string {
	var rows int64
	available, frozen := new(big.Int), new(big.Int)
	add := func(to *big.Int, s manifest.Sum) {
		if v, ok := new(big.Int).SetString(s.String(), 10); ok {
			to.Add(to, v)
		}
	}
	for _, t := range by {
		rows += t.RowCount
		add(available, t.AvailableDeltaTotal)
		add(frozen, t.FrozenDeltaTotal)
	}
	return fmt.Sprintf("%d rows, available %s, frozen %s", rows, available, frozen)
}
