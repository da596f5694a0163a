package cosstore

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Reclassify copies the object onto itself, which is how COS changes a class
// (Tencent's document 436/10881), and compares size and CRC64 of the copy. An
// object under a lock cannot be replaced on a bucket without versions: set the
// lock here and not with Put.
func (s *Store) Reclassify(ctx context.Context, key, versionID string, opts objstore.PutOptions) (objstore.Info, error) {
	const op = "move object"
	if err := manifest.CheckKey(key); err != nil {
		return objstore.Info{}, fmt.Errorf("%s: %w", op, err)
	}
	header, err := putHeader(opts)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("%s %s: %w", op, key, err)
	}
	class := opts.StorageClass
	if class == "STANDARD" {
		class = "" // as HEAD says it
	}
	before, err := s.head(ctx, lookUp, key, versionID)
	if err != nil {
		return objstore.Info{}, err
	}
	if before.StorageClass == class {
		return before, nil
	}
	if before.CRC64 == nil {
		return objstore.Info{}, &Error{Op: op, Key: key, Err: &objstore.CorruptError{Key: key, Kind: objstore.CRCMissing}}
	}
	var after objstore.Info
	err = s.do(ctx, op, key, func() error {
		version, err := s.copyOnto(ctx, key, before, header)
		if err != nil && !unclear(s.wrap(ctx, op, key, err)) {
			return err
		}
		// An answer of 200 may hold an error, and one that is lost may have
		// been a success: what counts is what is there now.
		info, headErr := s.head(ctx, lookUp, key, version)
		switch {
		case headErr != nil:
			return headErr
		case info.StorageClass != class && err != nil:
			return err
		case info.StorageClass != class:
			return &Error{Op: op, Key: key, action: again, Err: fmt.Errorf("the copy was accepted, but the class is still %q", info.StorageClass)}
		case info.Size != before.Size || info.CRC64 == nil || *info.CRC64 != *before.CRC64:
			return &Error{Op: op, Key: key, Err: &objstore.CorruptError{Key: key, Kind: objstore.CRCMismatch,
				Got: fmt.Sprint(info.CRC64), Want: before.CRC64.String()}}
		}
		after = info
		return nil
	})
	return after, err
}

// copyOnto replaces the object by a copy with other headers and returns the
// version id of the copy, "" where there is none.
func (s *Store) copyOnto(ctx context.Context, key string, from objstore.Info, header *cos.ObjectPutHeaderOptions) (string, error) {
	h := *header
	x := h.XOptionHeader.Clone()
	x.Set("x-cos-copy-source", s.copySource(key, from.VersionID))
	x.Set("x-cos-metadata-directive", "Replaced") // COS wants it of a copy onto itself
	h.XOptionHeader = &x
	if h.XCosStorageClass == "" {
		h.XCosStorageClass = "STANDARD"
	}
	if from.SHA256 != nil {
		h.XCosMetaXXX = &http.Header{strings.ToLower(headerSHA256): {from.SHA256.String()}}
	}
	// Not the SDK's Copy, which escapes keys in another way (its issue 329) and
	// returns an error of the answer's XML for one of the service.
	resp, err := s.client.Object.Put(ctx, key, bytes.NewReader(nil), &cos.ObjectPutOptions{ObjectPutHeaderOptions: &h})
	if err != nil {
		return "", err
	}
	return resp.Header.Get(headerVersion), nil
}

func (s *Store) copySource(key, versionID string) string {
	segments := strings.Split(key, "/")
	for i, seg := range segments {
		segments[i] = cos.EncodeURIComponent(seg)
	}
	source := s.host + "/" + strings.Join(segments, "/")
	if versionID != "" {
		source += "?versionId=" + url.QueryEscape(versionID)
	}
	return source
}
