package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// writeJSON answers with a value. What cannot be encoded is a defect and ends
// in the recovery of the middleware.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	writeRaw(w, status, append(data, '\n'))
}

// writeRaw answers with JSON that is encoded already.
func writeRaw(w http.ResponseWriter, status int, data []byte) {
	write(w, status, "application/json", data)
}

func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, "text/plain; charset=utf-8", []byte(text))
}

func write(w http.ResponseWriter, status int, contentType string, data []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client has gone: nobody is left to tell
}
