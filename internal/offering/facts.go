package offering

import (
	"sync"
	"time"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

// get reads a field of the Go value behind an object of expressions.
func get[T any](typ expr.Type, read func(v *T) any) expr.Field {
	return expr.Field{Type: typ, Get: func(v any) any { return read(v.(*T)) }}
}

// envs are what the parts of a file see.
type envs struct {
	instance *expr.Env // one instance and what is around it
	desired  *expr.Env // the same, and secrets
	cluster  *expr.Env // what is around a cluster's agent, and its secret
	change   *expr.Env // an old value and a new one
}

// Secrets that are not the identity's.
const (
	secretCert  = "tls.crt"
	secretKey   = "tls.key"
	secretAgent = "agent"
)

// fixed are the environments that no file has a say in: made once, for all.
var fixed = sync.OnceValues(func() (e envs, err error) {
	if e.cluster, err = expr.NewEnv(aroundObjects(), nil); err == nil {
		e.cluster, err = e.cluster.WithSecrets(secretAgent)
	}
	if err == nil {
		e.change, err = expr.NewEnv(nil, map[string]expr.Type{"old": expr.Dyn, "new": expr.Dyn})
	}
	return e, err
})

// newEnvs declares what expressions see. Parameters that the schema closes are
// known by name, so that a misspelt one is found when the file is loaded.
func newEnvs(parameters schema.Shape, identity *Identity) (envs, error) {
	e, err := fixed()
	if err != nil {
		return e, err
	}
	secrets := []string{secretCert, secretKey}
	if identity != nil {
		secrets = append([]string{identity.Name}, secrets...)
	}
	objects := aroundObjects()
	objects["instance"], objects["type"], objects["size"], objects["billing"] = instanceObject(parameters), typeObject(), sizeObject(), billingObject()
	if e.instance, err = expr.NewEnv(objects, nil); err == nil {
		e.desired, err = e.instance.WithSecrets(secrets...)
	}
	return e, err
}

func aroundObjects() map[string]*expr.Object {
	return map[string]*expr.Object{
		"offering": offeringObject(), "cluster": clusterObject(), "sso": ssoObject(),
		"server": {Name: "server", Fields: map[string]expr.Field{
			"url": get(expr.String, func(s *ServerFacts) any { return s.URL }),
		}},
	}
}

func instanceObject(parameters schema.Shape) *expr.Object {
	texts := map[string]func(f *Facts) string{
		"id": func(f *Facts) string { return f.ID }, "name": func(f *Facts) string { return f.Name },
		"owner": func(f *Facts) string { return f.Owner }, "org": func(f *Facts) string { return f.Org },
		"account": func(f *Facts) string { return f.Account }, "phase": func(f *Facts) string { return f.Phase },
		"reason": func(f *Facts) string { return f.Reason }, "provider": func(f *Facts) string { return f.Provider },
		"region": func(f *Facts) string { return f.Region }, "type": func(f *Facts) string { return f.Type },
		"size": func(f *Facts) string { return f.Size }, "version": func(f *Facts) string { return f.Version },
		"cluster": func(f *Facts) string { return f.Cluster }, "namespace": func(f *Facts) string { return f.Namespace },
		"placement": func(f *Facts) string { return f.Placement }, "host": func(f *Facts) string { return f.Host },
		"admin": func(f *Facts) string { return f.Admin }, "client": func(f *Facts) string { return f.Client },
		"billing": func(f *Facts) string { return f.Billing }, "marketplace": func(f *Facts) string { return f.Market },
		"billing_account": func(f *Facts) string { return f.Payer }, "promotion": func(f *Facts) string { return f.Promotion },
		"promotion_details": func(f *Facts) string { return f.Promoting }, "quota": func(f *Facts) string { return f.Quota },
		"subscription": func(f *Facts) string { return f.Ticket }, "certificate": func(f *Facts) string { return f.Certificate },
	}
	fields := map[string]expr.Field{
		"multi_az":       get(expr.Bool, func(f *Facts) any { return f.MultiAZ }),
		"versions":       get(expr.Map(expr.String), func(f *Facts) any { return f.Versions }),
		"actual":         get(expr.Map(expr.String), func(f *Facts) any { return f.Actual }),
		"upgrading":      get(expr.List(expr.String), func(f *Facts) any { return f.Upgrading }),
		"routes":         get(expr.List(expr.Map(expr.Dyn)), func(f *Facts) any { return f.Routes }),
		"routes_created": get(expr.Bool, func(f *Facts) any { return f.RoutesDone }),
		"deleted":        get(expr.Bool, func(f *Facts) any { return f.Deleted }),
		"suspended":      get(expr.Bool, func(f *Facts) any { return f.Suspended }),
		"created":        get(expr.Time, func(f *Facts) any { return f.Created }),
		"expires":        get(expr.Time, func(f *Facts) any { return f.Expires }),
		"parameters":     parameterField("parameters", parameters, func(v any) any { return v.(*Facts).Parameters }),
	}
	for name, read := range texts {
		fields[name] = get(expr.String, func(f *Facts) any { return read(f) })
	}
	return &expr.Object{Name: "instance", Fields: fields}
}

func typeObject() *expr.Object {
	return &expr.Object{Name: "instance_type", Fields: map[string]expr.Field{
		"name":        get(expr.String, func(t *Type) any { return t.Name }),
		"displayName": get(expr.String, func(t *Type) any { return t.DisplayName }),
		"quota":       get(expr.String, func(t *Type) any { return t.Quota }),
		"multiAZ": get(expr.Bool, func(t *Type) any {
			if t.MultiAZ == nil {
				return nil // the tenant says: instance.multi_az
			}
			return *t.MultiAZ
		}),
	}}
}

func sizeObject() *expr.Object {
	return &expr.Object{Name: "instance_size", Fields: map[string]expr.Field{
		"name":        get(expr.String, func(s *Size) any { return s.Name }),
		"displayName": get(expr.String, func(s *Size) any { return s.DisplayName }),
		"capacity":    get(expr.Int, func(s *Size) any { return s.Capacity }),
		"quota":       get(expr.Int, func(s *Size) any { return s.Quota }),
		"lifespan":    get(expr.Duration, func(s *Size) any { return time.Duration(s.Lifespan) }),
		"maturity":    get(expr.String, func(s *Size) any { return s.Maturity }),
		"limits":      get(expr.Map(expr.Dyn), func(s *Size) any { return s.Limits }),
		"present":     get(expr.Map(expr.Dyn), func(s *Size) any { return s.Present }),
	}}
}

func billingObject() *expr.Object {
	return &expr.Object{Name: "billing_model", Fields: map[string]expr.Field{
		"name":         get(expr.String, func(b *BillingModel) any { return b.Name }),
		"grace":        get(expr.Duration, func(b *BillingModel) any { return time.Duration(b.Grace) }),
		"marketplaces": get(expr.List(expr.String), func(b *BillingModel) any { return b.Marketplaces }),
		"promotable":   get(expr.List(expr.String), func(b *BillingModel) any { return b.Promotable }),
		"ownCluster":   get(expr.Bool, func(b *BillingModel) any { return b.OwnCluster }),
		"resource":     get(expr.String, func(b *BillingModel) any { return b.Resource }),
		"product":      get(expr.String, func(b *BillingModel) any { return b.Product }),
		"models":       get(expr.List(expr.String), func(b *BillingModel) any { return b.Models }),
	}}
}

func clusterObject() *expr.Object {
	return &expr.Object{Name: "cluster", Fields: map[string]expr.Field{
		"id":       get(expr.String, func(c *ClusterFacts) any { return c.ID }),
		"domain":   get(expr.String, func(c *ClusterFacts) any { return c.Domain }),
		"client":   get(expr.String, func(c *ClusterFacts) any { return c.Client }),
		"login":    get(expr.String, func(c *ClusterFacts) any { return c.Login }),
		"provider": get(expr.String, func(c *ClusterFacts) any { return c.Provider }),
		"region":   get(expr.String, func(c *ClusterFacts) any { return c.Region }),
		"private":  get(expr.Bool, func(c *ClusterFacts) any { return c.Private }),
		"nodes":    get(expr.Map(expr.Int), func(c *ClusterFacts) any { return c.Nodes }),
		"versions": get(expr.Map(expr.String), func(c *ClusterFacts) any { return c.Versions }),
	}}
}

func ssoObject() *expr.Object {
	return &expr.Object{Name: "sso", Fields: map[string]expr.Field{
		"issuer": get(expr.String, func(s *SSOFacts) any { return s.Issuer }),
		"token":  get(expr.String, func(s *SSOFacts) any { return s.Token }),
		"jwks":   get(expr.String, func(s *SSOFacts) any { return s.JWKS }),
		"base":   get(expr.String, func(s *SSOFacts) any { return s.Base }),
		"realm":  get(expr.String, func(s *SSOFacts) any { return s.Realm }),
	}}
}

func offeringObject() *expr.Object {
	object := func(name string, fields map[string]expr.Field) expr.Field {
		return expr.Field{Object: &expr.Object{Name: name, Fields: fields}, Get: func(v any) any { return v }}
	}
	text := func(read func(o *Offering) string) expr.Field {
		return get(expr.String, func(o *Offering) any { return read(o) })
	}
	return &expr.Object{Name: "offering", Fields: map[string]expr.Field{
		"name":        text(func(o *Offering) string { return o.Metadata.Name }),
		"description": text(func(o *Offering) string { return o.Spec.Description }),
		"names": object("offering_names", map[string]expr.Field{
			"kind":     text(func(o *Offering) string { return o.Spec.Names.Kind }),
			"singular": text(func(o *Offering) string { return o.Spec.Names.Singular }),
			"plural":   text(func(o *Offering) string { return o.Spec.Names.Plural }),
		}),
		"api": object("offering_api", map[string]expr.Field{
			"group":       text(func(o *Offering) string { return o.Spec.API.Group }),
			"version":     text(func(o *Offering) string { return o.Spec.API.Version }),
			"errorPrefix": text(func(o *Offering) string { return o.Spec.API.ErrorPrefix }),
		}),
	}}
}

// parameterField declares one parameter, or all of them, by its shape.
func parameterField(name string, s schema.Shape, read func(any) any) expr.Field {
	switch s.Type {
	case "string":
		return expr.Field{Type: expr.String, Get: read}
	case "boolean":
		return expr.Field{Type: expr.Bool, Get: read}
	case "integer": // which JSON may have brought as a float64
		return expr.Field{Type: expr.Int, Get: func(v any) any { return expr.Normal(read(v)) }}
	case "number":
		return expr.Field{Type: expr.Double, Get: func(v any) any {
			if n, whole := expr.Normal(read(v)).(int64); whole {
				return float64(n)
			}
			return read(v)
		}}
	case "object":
		if !s.Closed {
			return expr.Field{Type: expr.Map(expr.Dyn), Get: func(v any) any { return expr.Normal(read(v)) }}
		}
		fields := map[string]expr.Field{}
		for member, shape := range s.Members {
			read := func(v any) any {
				m, _ := v.(map[string]any)
				return m[member]
			}
			field := parameterField(name+"."+member, shape, read)
			field.Has = func(v any) bool { return read(v) != nil } // false is an answer too
			fields[member] = field
		}
		return expr.Field{Object: &expr.Object{Name: name, Fields: fields}, Get: read}
	}
	return expr.Field{Type: expr.Dyn, Get: func(v any) any { return expr.Normal(read(v)) }}
}
