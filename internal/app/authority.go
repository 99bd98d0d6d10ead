package app

import (
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/fault"
)

// CertificateAuthority carries out one `drover ca`.
func CertificateAuthority(o v1.AuthorityOrder) (v1.Authority, error) {
	a := &authority.Authority{Dir: o.Dir}
	if o.Verb == "init" {
		if err := a.Init(o.Name, o.Lifetime); err != nil {
			return v1.Authority{}, err
		}
		return shown(a, nil), nil
	}
	if err := a.Open(); err != nil {
		return v1.Authority{}, err
	}
	var issued []authority.Issued
	var dropped int
	var err error
	switch o.Verb {
	case "issue":
		var one authority.Issued
		if one, err = a.Issue(authority.Request{Use: o.Use, Name: o.Name, Hosts: o.Hosts, Lifetime: o.Lifetime}); err == nil && o.Out != "" {
			if err = a.Cut(one, o.Out); err == nil {
				one.Certificate, one.Key = o.Out+"/tls.crt", o.Out+"/tls.key"
			}
		}
		issued = []authority.Issued{one}
	case "renew":
		issued, err = a.Renew(o.Within)
	case "rotate":
		err = a.Rotate(o.Lifetime)
	case "retire":
		dropped, err = a.Retire()
	case "show":
		issued, err = a.Issued()
	default:
		err = fault.New(fault.Invalid, "an authority does not know how to %.20q", o.Verb)
	}
	out := shown(a, issued)
	out.Dropped = dropped
	return out, err
}

func shown(a *authority.Authority, issued []authority.Issued) v1.Authority {
	out := v1.Authority{Bundle: a.BundlePath(), Authorities: []v1.Certificate{}, Issued: []v1.Certificate{}}
	for i, c := range a.Bundle() {
		out.Authorities = append(out.Authorities, v1.Certificate{
			Name: c.Subject.CommonName, Use: "authority", Names: []string{authority.Fingerprint(c)[:16]}, NotAfter: c.NotAfter, Fingerprint: authority.Fingerprint(c), Old: i > 0,
		})
	}
	for _, c := range issued {
		out.Issued = append(out.Issued, v1.Certificate{
			Name: c.Name, Use: c.Use, Names: c.Names, File: c.Certificate, KeyFile: c.Key, NotAfter: c.NotAfter, Old: !c.Current,
		})
	}
	return out
}
