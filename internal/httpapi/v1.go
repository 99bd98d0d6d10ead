package httpapi

import "net/http"

// routesV1 registers Drover's own API.
func (s *server) routesV1(mux *http.ServeMux) {}
