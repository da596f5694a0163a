package cosstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
)

// pageKeys is the most that COS lists at once.
const pageKeys = 1000

// List pages through the bucket. COS lists with a delay (Tencent's document
// 436/7734): what is missing may be there.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	const op = "list objects"
	return func(yield func(objstore.Info, error) bool) {
		if err := objstore.CheckPrefix(prefix); err != nil {
			yield(objstore.Info{}, fmt.Errorf("%s: %w", op, err))
			return
		}
		for marker := ""; ; {
			var p page
			err := s.do(ctx, op, prefix, func() (err error) {
				p, err = s.listPage(ctx, prefix, marker)
				return err
			})
			if err != nil {
				yield(objstore.Info{}, err)
				return
			}
			for _, info := range p.infos {
				if !yield(info, nil) {
					return
				}
			}
			if p.next == "" {
				return
			}
			if p.next <= marker {
				yield(objstore.Info{}, &Error{Op: op, Key: prefix,
					Err: fmt.Errorf("the listing goes back from %q to %q", marker, p.next)})
				return
			}
			marker = p.next
		}
	}
}

type page struct {
	infos []objstore.Info
	next  string // marker of the next page; "" after the last
}

func (s *Store) listPage(ctx context.Context, prefix, marker string) (page, error) {
	res, _, err := s.client.Bucket.Get(ctx, &cos.BucketGetOptions{
		Prefix: prefix, Marker: marker, MaxKeys: pageKeys,
		EncodingType: "url", // else a key may be no XML
	})
	if err != nil {
		return page{}, err
	}
	s.bucketSeen.Store(true)
	// The SDK leaves the decoding to us.
	decode := func(v string) (string, error) {
		if res.EncodingType != "url" {
			return v, nil
		}
		return cos.DecodeURIComponent(v)
	}
	var p page
	for _, o := range res.Contents {
		key, err := decode(o.Key)
		if err != nil {
			return page{}, fmt.Errorf("key %q in the listing: %w", o.Key, err)
		}
		info := objstore.Info{Key: key, Size: o.Size, StorageClass: o.StorageClass}
		if info.StorageClass == "STANDARD" {
			info.StorageClass = "" // as HEAD says it
		}
		if t, err := time.Parse(time.RFC3339, o.LastModified); err == nil {
			info.ModTime = t
		}
		p.infos = append(p.infos, info)
	}
	if !res.IsTruncated {
		return p, nil
	}
	if p.next, err = decode(res.NextMarker); err != nil {
		return page{}, fmt.Errorf("marker %q in the listing: %w", res.NextMarker, err)
	}
	if p.next == "" && len(p.infos) > 0 {
		p.next = p.infos[len(p.infos)-1].Key
	}
	if p.next == "" {
		return page{}, fmt.Errorf("the listing is cut and names no next page")
	}
	return p, nil
}
