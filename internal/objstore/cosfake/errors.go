package cosfake

import (
	"bytes"
	"encoding/xml"
	"errors"
	"net/http"
)

// apiError is a refusal as COS words it: document 436/7730 has the codes. The
// messages are the fake's own but for those that clients are known to read.
type apiError struct {
	status  int
	code    string
	message string
	header  http.Header // more than every answer has; nil for none
}

// Error returns the code and the message.
func (e *apiError) Error() string { return e.code + ": " + e.message }

// fail returns an apiError.
func fail(status int, code, message string) *apiError {
	return &apiError{status: status, code: code, message: message}
}

// errorBody is the document in the body of a refusal.
type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Resource  string
	RequestID string `xml:"RequestId"`
	TraceID   string `xml:"TraceId"`
}

// refuse turns an error into an answer.
func (f *Fake) refuse(r *request, err error) *answer {
	var refusal *apiError
	if !errors.As(err, &refusal) {
		refusal = fail(http.StatusInternalServerError, "InternalError", err.Error())
	}
	trace := "trace-" + r.id
	header := refusal.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("X-Cos-Trace-Id", trace)
	f.log.update(r.entry, func(e *Request) { e.Code = refusal.code })
	if r.Method == http.MethodHead || refusal.status == http.StatusNotModified {
		return &answer{status: refusal.status, header: header}
	}
	return xmlAnswer(refusal.status, header, errorBody{
		Code: refusal.code, Message: refusal.message, Resource: r.Host + r.URL.EscapedPath(), RequestID: r.id, TraceID: trace,
	})
}

// xmlAnswer returns an answer with doc as its body.
func xmlAnswer(status int, header http.Header, doc any) *answer {
	var body bytes.Buffer
	body.WriteString("<?xml version='1.0' encoding='utf-8' ?>\n")
	if err := xml.NewEncoder(&body).Encode(doc); err != nil {
		panic("cosfake: encode XML: " + err.Error()) // of a type of this package
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/xml")
	return &answer{status: status, header: header, body: body.Bytes()}
}

// decodeXML reads the body of r into doc.
func decodeXML(r *request, doc any) error {
	if err := xml.Unmarshal(r.body, doc); err != nil {
		return fail(http.StatusBadRequest, "MalformedXML", "the body is not the document that this operation takes")
	}
	return nil
}
