package env

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// ServeTLS also serves the repositories over https, to those who log in, and returns the base of their URLs and the
// authority, as PEM, that signed the server's certificate. It hangs and resumes with the server, and ends with it.
func (s *GitServer) ServeTLS(user, password string) (url string, authorityPEM []byte, err error) {
	certificate, authorityPEM, err := serverCertificate("git")
	if err != nil {
		return "", nil, err
	}
	listener, err := listen(0)
	if err != nil {
		return "", nil, fmt.Errorf("start the git server over https: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !hasLogin(r, user, password) {
				w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
				http.Error(w, "login needed", http.StatusUnauthorized)
				return
			}
			s.serve(w, r)
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	s.endWith(server)
	return "https://" + listener.Addr().String(), authorityPEM, nil
}
