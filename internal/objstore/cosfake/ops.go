package cosfake

import "net/http"

// Op is an operation on the bucket, named as the API and access policies name it.
type Op string

// The operations. Unknown stands for all that the fake does not have.
const (
	PutObject                        Op = "PutObject"
	PutObjectCopy                    Op = "PutObjectCopy"
	GetObject                        Op = "GetObject"
	HeadObject                       Op = "HeadObject"
	DeleteObject                     Op = "DeleteObject"
	PostObjectRestore                Op = "PostObjectRestore"
	PutObjectRetention               Op = "PutObjectRetention"
	GetObjectRetention               Op = "GetObjectRetention"
	PutObjectTagging                 Op = "PutObjectTagging"
	GetObjectTagging                 Op = "GetObjectTagging"
	DeleteObjectTagging              Op = "DeleteObjectTagging"
	HeadBucket                       Op = "HeadBucket"
	GetBucket                        Op = "GetBucket" // the list of objects
	PutBucket                        Op = "PutBucket"
	GetBucketVersioning              Op = "GetBucketVersioning"
	PutBucketVersioning              Op = "PutBucketVersioning"
	GetBucketObjectLockConfiguration Op = "GetBucketObjectLockConfiguration"
	PutBucketObjectLockConfiguration Op = "PutBucketObjectLockConfiguration"
	Unknown                          Op = "Unknown"
)

// subresources are the query parameters that make another operation of a
// method; those with "" are known to COS and not to the fake.
var subresources = []struct {
	name   string
	bucket map[string]Op
	object map[string]Op
}{
	{name: "restore", object: map[string]Op{http.MethodPost: PostObjectRestore}},
	{name: "retention", object: map[string]Op{http.MethodPut: PutObjectRetention, http.MethodGet: GetObjectRetention}},
	{name: "tagging", object: map[string]Op{
		http.MethodPut: PutObjectTagging, http.MethodGet: GetObjectTagging, http.MethodDelete: DeleteObjectTagging,
	}},
	{name: "versioning", bucket: map[string]Op{http.MethodGet: GetBucketVersioning, http.MethodPut: PutBucketVersioning}},
	{name: "object-lock", bucket: map[string]Op{
		http.MethodGet: GetBucketObjectLockConfiguration, http.MethodPut: PutBucketObjectLockConfiguration,
	}},
	{name: "versions"}, {name: "uploads"}, {name: "uploadId"}, {name: "acl"}, {name: "delete"}, {name: "lifecycle"},
	{name: "policy"}, {name: "append"}, {name: "select"}, {name: "location"}, {name: "encryption"}, {name: "cors"},
}

// operation names what r asks for, Unknown when the fake does not have it.
func operation(r *request) Op {
	for _, sub := range subresources {
		if !r.query.Has(sub.name) {
			continue
		}
		ops := sub.object
		if r.key == "" {
			ops = sub.bucket
		}
		if op, ok := ops[r.Method]; ok {
			return op
		}
		return Unknown
	}
	plain := map[string]Op{
		http.MethodPut: PutObject, http.MethodGet: GetObject, http.MethodHead: HeadObject, http.MethodDelete: DeleteObject,
	}
	if r.key == "" {
		plain = map[string]Op{http.MethodPut: PutBucket, http.MethodGet: GetBucket, http.MethodHead: HeadBucket}
	} else if r.Method == http.MethodPut && r.Header.Get(hdrCopySource) != "" {
		return PutObjectCopy
	}
	if op, ok := plain[r.Method]; ok {
		return op
	}
	return Unknown
}

// dispatch does what r asks for.
func (f *Fake) dispatch(r *request) (*answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.op {
	case PutObject:
		return f.putObject(r)
	case PutObjectCopy:
		return f.copyObject(r)
	case GetObject, HeadObject:
		return f.getObject(r)
	case DeleteObject:
		return f.deleteObject(r)
	case PostObjectRestore:
		return f.restoreObject(r)
	case PutObjectRetention:
		return f.putRetention(r)
	case GetObjectRetention:
		return f.getRetention(r)
	case PutObjectTagging:
		return f.putTagging(r)
	case GetObjectTagging:
		return f.getTagging(r)
	case DeleteObjectTagging:
		return f.deleteTagging(r)
	case HeadBucket:
		return &answer{status: http.StatusOK}, nil
	case GetBucket:
		return f.list(r)
	case PutBucket:
		return nil, fail(http.StatusConflict, "BucketAlreadyOwnedByYou", "the bucket is there already")
	case GetBucketVersioning:
		return f.getVersioning(), nil
	case PutBucketVersioning:
		return f.putVersioning(r)
	case GetBucketObjectLockConfiguration:
		return f.getObjectLock()
	case PutBucketObjectLockConfiguration:
		return f.putObjectLock(r)
	default:
		return nil, fail(http.StatusNotImplemented, "NotImplemented", "the fake does not have this operation")
	}
}
